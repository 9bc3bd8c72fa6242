// The model beside adapters: every command that uses the adapters notices another model in its place, and
// finds the model from any directory.
#include "run/weights/base_model.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "checkpoint/export_model.h"
#include "checkpoint/trainer_state.h"
#include "config_files/load_config.h"
#include "huggingface/adapters/adapter_config.h"
#include "huggingface/adapters/lora_merge.h"
#include "huggingface/directory/hf_config.h"
#include "huggingface/weights/adapter_files.h"
#include "huggingface/weights/safetensors.h"
#include "huggingface/weights/weights_fingerprint.h"
#include "inference/evaluate.h"
#include "inference/export_source.h"
#include "run/weights/first_weights.h"
#include "tests/support/file_text.h"
#include "tests/support/model_directory.h"
#include "tests/support/train_fixture.h"

namespace tidepool::base_model_test {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

void flip_byte(const std::string& path, u64 at) {
  std::string bytes = test::file_text(path);
  ASSERT_LT(at, bytes.size());
  bytes[at] = static_cast<char>(bytes[at] ^ 1);
  test::write_file(path, bytes);
}

class BaseModel : public ::testing::Test {
 protected:
  BaseModel() {
    test::write_model_directory(base_, model_, Precision::bf16);
    config_.model_directory = base_;
    config_.model = read_model_directory(base_).value();
    config_.lora = {.r = 4, .alpha = 16};
  }
  void stop_after_two() {
    EXPECT_EQ(test::run(config_, {.stop_after = 2}).error().kind, ErrorKind::interrupted);
  }

  // RETURNS: a byte of the weights that weights_fingerprint() does not read; 0: there is none.
  u64 far_from_the_samples() const {
    const auto file = SafetensorsFile::open(weights_, ErrorKind::bad_input).value();
    for (const StoredTensor& t : file->tensors())
      if (t.bytes() >= 32 * kib) return file->offset_of(t) + 6 * kib;
    return 0;
  }

  // Expects a refusal from every command that combines adapters and model.
  void expect_refused(const std::string& difference) {
    const std::string what = run_ + "/checkpoint-2 was trained for another base model than the model in " +
                             base_ + ": " + difference;
    const auto refused = [&](const auto& result) {
      ASSERT_FALSE(result);
      EXPECT_EQ(result.error().kind, ErrorKind::usage);
      EXPECT_THAT(result.error().message, HasSubstr(what));
      EXPECT_THAT(result.error().message, HasSubstr("Restore that model, or name its directory"));
    };
    refused(test::run(config_, {.resume = "auto"}));
    refused(evaluate_model({.source = run_, .quiet = true}));
    refused(find_export_source(run_, ""));
    refused(find_export_source(run_ + "/checkpoint-2/", base_));
  }

  const test::TrainDir dir_;
  const std::string base_ = dir_ / "base", weights_ = base_ + "/model.safetensors";
  const ModelConfig model_ = test::small_model(Family::llama);
  Config config_ = test::small_config(dir_);
  const std::string run_ = config_.output.dir;
};

TEST_F(BaseModel, WithOtherWeightsIsRefused) {
  stop_after_two();
  flip_byte(weights_, fs::file_size(weights_) - 1);
  expect_refused("the weights' fingerprint is ");
  flip_byte(weights_, fs::file_size(weights_) - 1);
  EXPECT_TRUE(find_export_source(run_, base_));
  const auto resumed = test::run(config_, {.resume = "auto"});
  ASSERT_TRUE(resumed) << resumed.error().message;
  EXPECT_EQ(read_trainer_state(run_ + "/checkpoint-4")->base_fingerprint, weights_fingerprint(base_).value());
}

// The fingerprint reads four blocks of 4 KiB of a tensor; loaded tensors are hashed as a whole.
TEST_F(BaseModel, WithOneBitFlippedAnywhereIsRefused) {
  stop_after_two();
  const u64 far = far_from_the_samples();
  ASSERT_NE(far, 0u);
  const std::string before = weights_fingerprint(base_).value();
  flip_byte(weights_, far);
  ASSERT_EQ(weights_fingerprint(base_).value(), before);
  const auto refused = [&](const auto& result) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().kind, ErrorKind::bad_input);
    EXPECT_THAT(
        result.error().message,
        HasSubstr(base_ + ": the weights differ from the base model that the adapters were trained for"));
  };
  refused(test::run(config_, {.resume = "auto"}));
  refused(evaluate_model({.source = run_, .quiet = true}));
  const ExportSource source = find_export_source(run_, "").value();
  const auto merge = AdapterMerge::open(source.adapter, source.directory).value();
  const auto model =
      ModelExport::open(source.directory,
                        {.change = merge.get(), .adapter = source.adapter, .weights_xxh3 = source.base_xxh3})
          .value();
  refused(model->write(dir_ / "out", *create_posix_files(), [](u64) { return true; }));
  EXPECT_FALSE(fs::exists(dir_ / "out"));
  flip_byte(weights_, far);
  EXPECT_TRUE(model->write(dir_ / "out", *create_posix_files(), [](u64) { return true; }));
  EXPECT_TRUE(test::run(config_, {.resume = "auto"}));
}

TEST_F(BaseModel, WithAnotherConfigIsRefused) {
  stop_after_two();
  ModelConfig other = model_;
  other.norm_epsilon = 1e-3;
  test::write_file(base_ + "/config.json", hf_config_text(other, Precision::bf16));
  expect_refused("rms_norm_eps is ");
}

// An export would use the unchanged model, and so another model.
TEST_F(BaseModel, IfTheConfigChangesItIsRefused) {
  Config changed = config_;
  changed.model.norm_epsilon = 0.5;
  changed.model.layers = 1;
  changed.model.tied = !changed.model.tied;
  const auto refused = test::run(changed);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::usage);
  for (const char* what : {"num_hidden_layers is 3 there and 1 here", "rms_norm_eps is ",
                           "tie_word_embeddings is ", "Leave these keys out"})
    EXPECT_THAT(refused.error().message, HasSubstr(what));
  EXPECT_FALSE(fs::exists(run_ + "/model-files"));
  config_.model.attention.dropout = 0.1;
  config_.model.initializer_range = 0.5;
  stop_after_two();
  config_.model.norm_epsilon = 0.5;
  const auto resumed = test::run(config_, {.resume = "auto"});
  ASSERT_FALSE(resumed);
  EXPECT_EQ(resumed.error().kind, ErrorKind::usage);
  EXPECT_THAT(resumed.error().message, HasSubstr("this config changes the model: rms_norm_eps is "));
}

// These files give the scale and the targets of the adapters.
TEST_F(BaseModel, IsVerifiedTogetherWithTheFilesOfTheAdapters) {
  stop_after_two();
  for (const char* name : {"/adapter_config.json", "/trainer_state.json"}) {
    const std::string path = run_ + "/checkpoint-2" + name;
    flip_byte(path, fs::file_size(path) / 2);
    const auto found = find_export_source(run_ + "/checkpoint-2", base_);
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().kind, ErrorKind::corrupt_checkpoint);
    EXPECT_THAT(found.error().message, HasSubstr(path + ": XXH3 is"));
    flip_byte(path, fs::file_size(path) / 2);
  }
}

TEST_F(BaseModel, IsNotCheckedWithoutARecordedFingerprint) {
  const std::string adapters = dir_ / "elsewhere/adapters";
  fs::create_directories(adapters);
  EXPECT_TRUE(check_base_model(base_, adapters));
  const auto say = [&](const std::string& fingerprint) {
    test::write_file(adapters + "/trainer_state.json",
                     to_text(TrainerState{.base_fingerprint = fingerprint}));
    return check_base_model(base_, adapters);
  };
  EXPECT_TRUE(say(""));
  EXPECT_TRUE(say(weights_fingerprint(base_).value()));
  EXPECT_FALSE(say("0123456789abcdef"));
}

TEST_F(BaseModel, IsFoundFromAnotherDirectory) {
  config_.model_directory = fs::relative(base_).string();
  ASSERT_FALSE(config_.model_directory.starts_with('/'));
  const auto report = test::run(config_);
  ASSERT_TRUE(report) << report.error().message;
  const std::string kept = load_config(run_ + "/config.yaml", {})->model_directory;
  const std::string named = read_adapter_config(run_ + "/checkpoint-4", ErrorKind::bad_input)->base;
  for (const std::string& path : {kept, named}) {
    EXPECT_TRUE(path.starts_with('/')) << path;
    EXPECT_TRUE(fs::equivalent(path, base_)) << path;
  }
}

TEST_F(BaseModel, IfMissingIsNamedByItsAbsolutePath) {
  config_.model_directory = "base-that-is-gone";
  const auto checked = check_weights_are_there(config_);
  ASSERT_FALSE(checked);
  EXPECT_THAT(checked.error().message,
              HasSubstr(fs::absolute("base-that-is-gone").string() + " holds no model.safetensors"));
}

TEST_F(BaseModel, IsNotACheckpointOfAdapters) {
  stop_after_two();
  const std::string adapters = run_ + "/checkpoint-2";
  const std::string what = adapters +
                           " holds adapters (LoRA) but no model: merge them with `tidepool export " +
                           adapters + " OUT`";
  const auto parsed = parse_config(
      "model: " + adapters + "\ndata: {train: x}\nmemory: {device: 1MiB, host: 1MiB}\n", "c.yaml", {});
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().kind, ErrorKind::usage);
  EXPECT_THAT(parsed.error().message, HasSubstr("c.yaml:1: model: " + what));
  // Some trainers write config.json beside the adapters.
  config_.model_directory = adapters;
  EXPECT_THAT(check_weights_are_there(config_).error().message, HasSubstr(what));
}

// Before the first step the adapters add nothing.
TEST_F(BaseModel, IsEvaluatedAloneBeforeTheRun) {
  test::write_file(dir_ / "c.yaml", to_yaml(config_));
  const auto evaluated = evaluate_model({.source = dir_ / "c.yaml", .quiet = true});
  ASSERT_TRUE(evaluated) << evaluated.error().message;
  EXPECT_EQ(evaluated->weights, base_);
}

TEST_F(BaseModel, FingerprintIsOfTensorsWhateverTheirFiles) {
  const std::string fingerprint = weights_fingerprint(base_).value();
  const auto files = create_posix_files();
  const auto write = [&](const std::string& out, const ExportOptions& options) {
    const auto model = ModelExport::open(base_, options).value();
    EXPECT_TRUE(model->write(out, *files, [](u64) { return true; }));
    return model->shards().size();
  };
  EXPECT_GT(write(dir_ / "sharded", {.max_shard_size = Bytes{40 * kib}}), 1u);
  EXPECT_EQ(weights_fingerprint(dir_ / "sharded").value(), fingerprint);
  write(dir_ / "fp32", {.dtype = Precision::fp32});
  EXPECT_NE(weights_fingerprint(dir_ / "fp32").value(), fingerprint);
}

TEST_F(BaseModel, FingerprintSeesEveryTensor) {
  const std::string fingerprint = weights_fingerprint(base_).value();
  const auto file = SafetensorsFile::open(weights_, ErrorKind::bad_input).value();
  for (const StoredTensor& t : file->tensors())
    for (const u64 at : {file->offset_of(t), file->offset_of(t) + t.bytes() - 1}) {
      flip_byte(weights_, at);
      EXPECT_NE(weights_fingerprint(base_).value(), fingerprint) << t.name;
      flip_byte(weights_, at);
    }
  EXPECT_EQ(weights_fingerprint(base_).value(), fingerprint);
}

}  // namespace tidepool::base_model_test
