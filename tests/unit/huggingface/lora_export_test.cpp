// Results of a LoRA run, merged into the model that it was trained beside: the same function, and the model's
// files.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "checkpoint/checkpoint.h"
#include "checkpoint/export_model.h"
#include "checkpoint/manifest.h"
#include "huggingface/adapters/lora_merge.h"
#include "huggingface/directory/hf_config.h"
#include "inference/evaluate.h"
#include "inference/export_source.h"
#include "tests/support/family_cases.h"
#include "tests/support/train_fixture.h"

namespace tidepool::lora_export_test {

using ::testing::HasSubstr;

double loss_of(const std::string& source, const std::string& tokens) {
  const auto result = evaluate_model(
      {.source = source,
       .overrides = {"memory.device=64MiB", "memory.host=64MiB", "train.precision=fp32",
                     "train.sequence_length=16", "data.format=nanogpt", "train.eval_batches=0"},
       .data = {tokens},
       .quiet = true});
  EXPECT_TRUE(result) << result.error().message;
  return result ? result->all.loss() : 0;
}

class ExportOfAdapters : public ::testing::TestWithParam<const char*> {};

TEST_P(ExportOfAdapters, GivesTheModelWithTheAdaptersMerged) {
  const test::TrainDir dir;
  const std::string base = test::family_directory(GetParam());
  Config c = test::small_config(dir);
  c.model_directory = base;
  c.model = read_model_directory(base).value();
  c.data.train = {test::token_file(dir)};
  c.data.format = DataFormat::nanogpt;
  c.train.precision = Precision::fp32;
  c.train.sequence_length = 16;
  c.train.max_steps = 4;
  c.train.learning_rate = 0.02;
  c.lora.r = 4;
  const auto report = test::run(c);
  ASSERT_TRUE(report) << report.error().message;

  const ExportSource source = find_export_source(c.output.dir, "").value();
  EXPECT_EQ(source.directory, base);
  EXPECT_EQ(source.adapter, c.output.dir + "/checkpoint-4");
  const auto merge = AdapterMerge::open(source.adapter, source.directory).value();
  const auto model =
      ModelExport::open(source.directory, {.change = merge.get(), .adapter = source.adapter}).value();
  const std::string out = dir / "merged";
  const auto files = create_posix_files();
  const auto written = model->write(out, *files, [](u64) { return true; });
  ASSERT_TRUE(written) << written.error().message;

  const double merged = loss_of(out, c.data.train[0]), beside = loss_of(c.output.dir, c.data.train[0]);
  EXPECT_NEAR(merged, beside, 1e-5);
  EXPECT_GT(std::abs(merged - loss_of(base, c.data.train[0])), 1e-3);  // the adapters have learned something
}

INSTANTIATE_TEST_SUITE_P(Families, ExportOfAdapters,
                         ::testing::Values("gpt2_plain", "llama_tied", "qwen3_tied_head_dim"),
                         [](const auto& info) { return std::string(info.param); });

TEST(ExportOfAdaptersSource, SaysWhichModelIsMissing) {
  const test::TrainDir dir;
  const std::string adapter = dir / "adapter";
  std::filesystem::create_directories(adapter);
  std::ofstream(adapter + "/adapter_config.json")
      << R"({"peft_type": "LORA", "r": 4, "lora_alpha": 8, "base_model_name_or_path": "someone/model"})";
  std::ofstream(adapter + "/adapter_model.safetensors") << "";
  EXPECT_THAT(find_export_source(adapter, "").error().message,
              HasSubstr("holds adapters for 'someone/model', which is not a model directory here: name the "
                        "adapters' base model with --base DIR"));
  EXPECT_THAT(find_export_source(adapter, dir / "").error().message,
              HasSubstr("holds no config.json with model.safetensors"));
  EXPECT_EQ(find_export_source(adapter, test::family_directory("llama_tied")).value().adapter, adapter);
  std::ofstream(adapter + "/adapter_config.json")
      << R"({"peft_type": "LORA", "r": 4, "lora_alpha": 8, "init_lora_weights": "pissa"})";
  EXPECT_THAT(find_export_source(adapter, test::family_directory("llama_tied")).error().message,
              HasSubstr("init_lora_weights: is set"));
  EXPECT_THAT(find_export_source(test::family_directory("llama_tied"), adapter).error().message,
              HasSubstr("name the model directory that " + test::family_directory("llama_tied")));
}

// Regression: a model could not be used because another tool had put a manifest.json beside it.
TEST(ExportSourceOfAModel, IgnoresManifestsOfOtherTools) {
  const test::TrainDir dir;
  const std::string base = test::family_directory("llama_tied"), model = dir / "model";
  std::filesystem::copy(base, model);
  const auto manifest_says = [&](std::string_view text) { std::ofstream(model + "/manifest.json") << text; };
  manifest_says(R"({"version": 3, "files": ["model.safetensors"]})");
  EXPECT_EQ(find_export_source(model, "").value().directory, model);
  EXPECT_TRUE(verify_model_if_hashed(model, Bytes{4096}));
  const std::string tokens = test::token_file(dir);
  EXPECT_EQ(loss_of(model, tokens), loss_of(base, tokens));

  const auto refusal = [&] { return find_export_source(model, "").error(); };
  // belongs to a checkpoint, so the manifest is damaged
  std::ofstream(model + "/trainer_state.json") << "{}";
  EXPECT_EQ(refusal().kind, ErrorKind::corrupt_checkpoint);
  std::filesystem::remove(model + "/trainer_state.json");
  manifest_says(to_text(Manifest{}) + "x");
  EXPECT_THAT(refusal().message, HasSubstr("manifest.json: does not match its own checksum"));
}

}  // namespace tidepool::lora_export_test
