// Weights that exist but cannot be used: pointers of Git LFS, links in circles, values that are not finite,
// layers that config.json does not count.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include "base/read_file.h"
#include "checkpoint/checkpoint.h"
#include "data/files/find_files.h"
#include "huggingface/weights/other_weights.h"
#include "huggingface/weights/unused_tensors.h"
#include "inference/evaluate.h"
#include "inference/generate_place.h"
#include "tests/support/file_text.h"
#include "tests/support/model_directory.h"
#include "tests/support/train_fixture.h"
#include "tidepool/fp16.h"

namespace tidepool::odd_weights_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* lfs_pointer =
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 4976698672\n";

class OddWeights : public ::testing::Test {
 protected:
  OddWeights() { make(Precision::fp32); }
  void make(Precision dtype) { test::write_model_directory(model_, test::small_model(Family::llama), dtype); }

  Error fault_of_training() {
    Config c = test::small_config(dir_);
    c.model_directory = model_;
    c.model = test::small_model(Family::llama);
    const auto report = test::run(c);
    EXPECT_FALSE(report);
    return report ? Error{} : report.error();
  }
  Error fault_of_evaluation() {
    const auto done = evaluate_model({.source = model_,
                                      .overrides = {"memory.device=16MiB", "memory.host=16MiB",
                                                    "train.sequence_length=16", "machine.threads=2"},
                                      .data = {dir_.data()},
                                      .quiet = true});
    EXPECT_FALSE(done);
    return done ? Error{} : done.error();
  }
  // Sets an element of a tensor to raw bits.
  void spoil(const std::string& tensor, u64 element, u64 bits) const {
    const std::string path = model_ + "/model.safetensors";
    const auto file = SafetensorsFile::open(path, ErrorKind::bad_input).value();
    const StoredTensor& t = *file->find(tensor);
    std::string bytes = test::file_text(path);
    const u64 size = dtype_bytes(t.dtype);
    std::memcpy(bytes.data() + file->offset_of(t) + element * size, &bits, size);
    test::write_file(path, bytes);
  }

  const test::TrainDir dir_;
  const std::string model_ = dir_ / "model";
};

TEST_F(OddWeights, AGitLfsPointerIsNamedAsSuch) {
  for (const char* file : {"model.safetensors", "config.json"}) {
    make(Precision::fp32);
    test::write_file(model_ + "/" + file, lfs_pointer);
    const Error fault =
        file == std::string("config.json") ? read_model_directory(model_).error() : fault_of_training();
    EXPECT_EQ(fault.kind, ErrorKind::bad_input);
    EXPECT_THAT(fault.message,
                AllOf(HasSubstr(model_ + "/" + file + ": is a Git LFS pointer"), HasSubstr("git lfs pull")));
  }
  const std::string data = dir_ / "d.jsonl";
  test::write_file(data, lfs_pointer);
  EXPECT_THAT(open_input(data, ErrorKind::bad_input).error().message, HasSubstr("is a Git LFS pointer"));
  test::write_file(data, std::string("version https://git-lfs.github.com/spec/v") + std::string(200, '2'));
  EXPECT_TRUE(open_input(data, ErrorKind::bad_input));
}

TEST_F(OddWeights, ALinkThatLeadsBackToItselfIsNamedAsSuch) {
  const auto expect_named = [](const Error& fault, const std::string& path) {
    EXPECT_EQ(fault.kind, ErrorKind::bad_input) << fault.message;
    EXPECT_THAT(fault.message, AllOf(HasSubstr(path), HasSubstr("leads back to itself")));
  };
  const std::string weights = model_ + "/model.safetensors", config = model_ + "/config.json";
  fs::remove(weights);
  fs::create_symlink("model.safetensors", weights);
  expect_named(fault_of_training(), weights);
  expect_named(fault_of_evaluation(), weights);
  EXPECT_TRUE(has_weights(model_));
  fs::remove(config);
  fs::create_symlink("config.json", config);
  expect_named(read_model_directory(model_).error(), config);
  const std::string loop = dir_ / "loop.jsonl";
  fs::create_symlink("loop.jsonl", loop);
  expect_named(find_files({loop}).error(), loop);
  fs::remove(loop);
  fs::create_symlink("nowhere.jsonl", loop);
  EXPECT_THAT(find_files({loop}).error().message, HasSubstr("is a link that leads nowhere"));
  // A directory's entries are examined before any file is opened.
  const std::string place = dir_ / "place";
  fs::create_directory(place);
  for (const char* file : {"config.json", "config.yaml", "model.safetensors", "adapter_model.safetensors"})
    fs::create_symlink(file, place + "/" + file);
  EXPECT_FALSE(find_generate_place(place));
}

TEST_F(OddWeights, ATensorThatIsNotFiniteIsNamedOnLoad) {
  constexpr const char* tensor = "model.layers.1.mlp.down_proj.weight";
  const auto bits_of = [](Precision dtype, float value) -> u64 {
    const u32 word = std::bit_cast<u32>(value);
    return dtype == Precision::fp32 ? word : dtype == Precision::bf16 ? word >> 16 : fp16_from_float(value);
  };
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (u32 p = 0; p < precision_count; ++p)
    for (const float value : {std::nanf(""), infinity, -infinity}) {
      const auto dtype = static_cast<Precision>(p);
      make(dtype);
      spoil(tensor, 4321, bits_of(dtype, value));
      for (const Error& fault : {fault_of_training(), fault_of_evaluation()}) {
        EXPECT_EQ(fault.kind, ErrorKind::bad_input);
        EXPECT_THAT(fault.message,
                    HasSubstr(fmt::format("{}/model.safetensors: tensor {} is NaN or infinite at "
                                          "element 4321",
                                          model_, tensor)));
      }
    }
}

TEST_F(OddWeights, LayersThatConfigJsonDoesNotCountAreOneLine) {
  ModelConfig model = test::small_model(Family::llama);
  model.layers = 1;
  test::write_file(model_ + "/config.json", hf_config_text(model, Precision::fp32));
  Config c = test::small_config(dir_);
  c.model_directory = model_;
  c.model = model;
  c.train.max_steps = 1;
  ::testing::internal::CaptureStdout();
  const auto report = train_model({.config = c, .command = "test", .quiet = false});
  const std::string said = ::testing::internal::GetCapturedStdout();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_THAT(said,
              HasSubstr(model_ + ": holds weights of 3 layers, but num_hidden_layers is 1: the layers from "
                                 "1 on (18 tensors) are not used"));
  EXPECT_EQ(said.find("model.layers."), said.npos);
}

TEST_F(OddWeights, OtherUnusedTensorsAreOneLine) {
  const ModelConfig model = test::small_model(Family::llama);
  const std::vector<std::string> one = {"audio.a"}, parts = {"model.visual.a", "mtp.a", "mtp.b"},
                                 many = {"a.1", "a.2", "model.layers.7.x", "a.3", "a.4"};
  EXPECT_THAT(describe_unused("d", {}, model, WeightsUse::training), ElementsAre());
  EXPECT_THAT(describe_unused("d", one, model, WeightsUse::training),
              ElementsAre("d: tensor audio.a is not used; `tidepool export` carries it"));
  EXPECT_THAT(
      describe_unused("d", parts, model, WeightsUse::training),
      ElementsAre("d: 3 tensors of the vision part and of extra prediction are not trained; `tidepool "
                  "export` carries them"));
  EXPECT_THAT(describe_unused("d", parts, model, WeightsUse::reading),
              ElementsAre("d: 3 tensors of the vision part and of extra prediction are not used; `tidepool "
                          "export` carries them"));
  EXPECT_THAT(describe_unused("d", many, model, WeightsUse::training),
              ElementsAre("d: holds weights of 8 layers, but num_hidden_layers is 3: the layers from 7 on (1 "
                          "tensors) are not used; `tidepool export` carries it",
                          "d: 4 tensors are not used: a.1, a.2, a.3 ...; `tidepool export` carries them"));
  ModelConfig classifier = model;
  classifier.score.labels = 2;
  EXPECT_THAT(describe_unused("d", one, classifier, WeightsUse::training),
              ElementsAre("d: tensor audio.a is not used"));
}

}  // namespace tidepool::odd_weights_test
