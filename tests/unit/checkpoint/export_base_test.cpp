// A trained model is put back into the directory that its run began from, with the tensors that the run did
// not train.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>

#include "checkpoint/export_model.h"
#include "checkpoint/manifest.h"
#include "checkpoint/trainer_state.h"
#include "huggingface/adapters/lora_merge.h"
#include "huggingface/directory/hf_config.h"
#include "inference/export_source.h"
#include "tests/support/family_cases.h"
#include "tests/support/file_text.h"
#include "tests/support/model_directory.h"
#include "tests/support/safetensors.h"
#include "tests/support/train_fixture.h"

namespace tidepool::export_base_test {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ExportBase : public ::testing::Test {
 protected:
  ExportBase() { fs::copy(test::wrapper_directory("qwen3_5"), base_); }

  // Trains the model in base_.
  void train(const std::function<void(Config&)>& change = [](Config&) {}) {
    Config c = test::small_config(dir_);
    c.model_directory = base_;
    c.model = read_model_directory(base_).value();
    c.data.train = {test::token_file(dir_)};
    c.data.format = DataFormat::nanogpt;
    c.train.precision = Precision::bf16;
    c.train.sequence_length = 16;
    c.train.max_steps = 1;
    c.train.learning_rate = 0.01;
    c.output.dir = run_;
    change(c);
    const auto report = test::run(c);
    ASSERT_TRUE(report) << report.error().message;
  }
  Result<void> write(const ExportRequest& request, ExportOptions options = {}) {
    fs::remove_all(out_);
    std::string unused;
    TRY_ASSIGN(const ExportSource source, find_export_source(request, unused));
    std::unique_ptr<AdapterMerge> merge;
    if (!source.adapter.empty()) {
      TRY_ASSIGN(merge, AdapterMerge::open(source.adapter, source.directory));
    }
    options.base = source.base;
    options.text_only = request.text_only;
    options.change = merge.get();
    options.adapter = source.adapter;
    options.weights_xxh3 = source.base_xxh3;
    TRY_ASSIGN(const auto model, ModelExport::open(source.directory, options));
    return model->write(out_, *create_posix_files(), [](u64) { return true; });
  }
  std::string refusal(const ExportRequest& request) {
    const auto written = write(request);
    EXPECT_FALSE(written);
    EXPECT_FALSE(fs::exists(out_));
    return written ? "" : written.error().message;
  }
  // Tensors of the output that differ from those of base_, and the names that only one of the two has.
  u64 changed(std::string_view beginning) const {
    const auto was = SafetensorsModel::open(base_, ErrorKind::bad_input).value(),
               is = SafetensorsModel::open(out_, ErrorKind::bad_input).value();
    EXPECT_EQ(was->files()[0]->tensors().size(), is->files()[0]->tensors().size());
    u64 count = 0;
    for (const StoredTensor& t : was->files()[0]->tensors()) {
      const auto at = is->find(t.name);
      if (!at) ADD_FAILURE() << t.name;
      if (!at || !t.name.starts_with(beginning)) continue;
      std::vector<std::byte> before(t.bytes()), after(at.tensor->bytes());
      EXPECT_TRUE(was->files()[0]->read(t, 0, before));
      EXPECT_TRUE(at.file->read(*at.tensor, 0, after));
      count += t.dtype != at.tensor->dtype || before != after;
    }
    return count;
  }

  const test::TrainDir dir_;
  const std::string base_ = dir_ / "base", run_ = dir_ / "run", out_ = dir_ / "out";
};

TEST_F(ExportBase, OnlyTrainedTensorsDifferAndKeepTheirTypes) {
  train();
  ASSERT_TRUE(write({.path = run_}));
  EXPECT_GT(changed("model.language_model."), 30u);
  EXPECT_EQ(changed("model.visual.") + changed("mtp."), 0u);
  const auto model = SafetensorsModel::open(out_, ErrorKind::bad_input).value();
  EXPECT_EQ(model->find("model.language_model.layers.0.linear_attn.A_log").tensor->dtype, Dtype::f32);
  EXPECT_EQ(model->find("model.language_model.layers.0.linear_attn.dt_bias").tensor->dtype, Dtype::bf16);
  EXPECT_EQ(test::file_text(out_ + "/config.json"), test::file_text(base_ + "/config.json"));
}

TEST_F(ExportBase, OnlyTrainedTensorsAreConverted) {
  train();
  ASSERT_TRUE(write({.path = run_}, {.dtype = Precision::fp32}));
  EXPECT_EQ(changed("model.visual.") + changed("mtp."), 0u);
  const auto model = SafetensorsModel::open(out_, ErrorKind::bad_input).value();
  EXPECT_EQ(model->find("model.language_model.layers.0.linear_attn.dt_bias").tensor->dtype, Dtype::f32);
  EXPECT_EQ(hf_precision(out_).value(), Precision::fp32);
}

TEST_F(ExportBase, AdaptersAreMergedIntoTheWholeModel) {
  train([](Config& c) { c.lora.r = 4; });
  ASSERT_TRUE(write({.path = run_}));
  EXPECT_GT(changed("model.language_model."), 5u);
  EXPECT_EQ(changed("model.visual.") + changed("mtp.") + changed("lm_head."), 0u);
  ASSERT_TRUE(write({.path = run_, .text_only = true}));
  EXPECT_EQ(test::Safetensors(out_ + "/model.safetensors").count("mtp."), 0u);
}

// A run may begin from a checkpoint of another.
TEST_F(ExportBase, TheOriginPassesOnToRunsOfCheckpoints) {
  train();
  const auto begin_there = [&](Config& c) {
    c.model_directory = run_ + "/checkpoint-1";
    c.output.dir = dir_ / "second";
  };
  train(begin_there);
  EXPECT_EQ(read_manifest(dir_ / "second/checkpoint-1")->origin,
            read_manifest(run_ + "/checkpoint-1")->origin);
  ASSERT_TRUE(write({.path = dir_ / "second"}));
  EXPECT_EQ(changed("model.visual."), 0u);
  fs::remove_all(dir_ / "second");
  train([&](Config& c) {
    begin_there(c);
    c.lora.r = 4;
  });
  ASSERT_TRUE(write({.path = dir_ / "second"}));
  EXPECT_EQ(changed("model.visual."), 0u);
}

TEST_F(ExportBase, SaysWhatToDoIfTheBaseIsGoneOrAnother) {
  train();
  const std::string moved = dir_ / "moved", checkpoint = run_ + "/checkpoint-1";
  fs::rename(base_, moved);
  EXPECT_EQ(
      refusal({.path = run_}),
      fmt::format("{} was trained from {}, whose other tensors an export carries, and which holds no "
                  "config.json with model.safetensors now: put that model there again, name its directory "
                  "with --base DIR, or write the text model alone with --text-only",
                  checkpoint, base_));
  EXPECT_THAT(refusal({.path = run_, .base = test::wrapper_directory("gemma3")}),
              HasSubstr("is not the model that the run began from: the weights' fingerprint was"));
  EXPECT_THAT(refusal({.path = run_, .base = moved, .text_only = true}),
              HasSubstr("leave one of the two out"));
  EXPECT_TRUE(write({.path = run_, .base = moved}));
  EXPECT_TRUE(write({.path = run_, .text_only = true}));
}

TEST_F(ExportBase, AModelOfNoRunIsPutIntoANamedBase) {
  const std::string text = dir_ / "text";
  ASSERT_TRUE(write({.path = base_, .text_only = true}));
  fs::rename(out_, text);
  ASSERT_TRUE(write({.path = text, .base = base_}));
  EXPECT_EQ(changed(""), 0u);
  EXPECT_THAT(refusal({.path = text, .base = test::wrapper_directory("gemma3")}),
              HasSubstr("holds a gemma3_text model, but " + text + " a qwen3_5_text model"));
  EXPECT_THAT(refusal({.path = text, .base = test::family_directory("qwen3_5_tied_biases")}),
              HasSubstr("name the directory that the model began from, or use --text-only"));
}

// Layers that config.json does not count stand for those that predict further tokens.
TEST(ExportOfExtraTensors, CarriesLayersThatTheModelDoesNotUse) {
  const test::TrainDir dir;
  const std::string base = dir / "base", out = dir / "out";
  ModelConfig model = test::small_model(Family::llama);
  test::write_model_directory(base, model, Precision::fp32);
  model.layers = 1;
  test::write_file(base + "/config.json", hf_config_text(model, Precision::fp32));
  Config c = test::small_config(dir);
  c.model_directory = base;
  c.model = model;
  c.train.max_steps = 1;
  c.train.learning_rate = 0;
  c.train.weight_decay = 0;
  ASSERT_TRUE(test::run(c));
  const ExportSource source = find_export_source(c.output.dir, "").value();
  EXPECT_EQ(source.base, base);
  ASSERT_TRUE(ModelExport::open(source.directory, {.base = source.base})
                  .value()
                  ->write(out, *create_posix_files(), [](u64) { return true; }));
  EXPECT_TRUE(test::file_text(out + "/model.safetensors") == test::file_text(base + "/model.safetensors"));
}

TEST(ExportOfExtraTensors, LeavesModelsWithoutThemAsTheyAre) {
  const test::TrainDir dir;
  Config c = test::small_config(dir);
  c.model_directory = test::family_directory("qwen3_5_untied");
  c.model = read_model_directory(c.model_directory).value();
  c.data.train = {test::token_file(dir)};
  c.data.format = DataFormat::nanogpt;
  c.train.sequence_length = 16;
  c.train.max_steps = 1;
  ASSERT_TRUE(test::run(c));
  EXPECT_FALSE(read_manifest(c.output.dir + "/checkpoint-1")->origin);
  EXPECT_EQ(find_export_source(c.output.dir, "")->base, "");
}

TEST(Origin, IsReadAsItIsWritten) {
  const Origin origin{.directory = "/a \"b\"/ü", .fingerprint = "0123456789abcdef"};
  const TrainerState state =
      parse_trainer_state(to_text(TrainerState{.origin = origin}), "trainer_state.json").value();
  EXPECT_EQ(state.origin, origin);
  EXPECT_FALSE(parse_trainer_state(to_text(TrainerState{}), "trainer_state.json")->origin);
}

}  // namespace tidepool::export_base_test
