// A run from a model directory trains the model in that directory, and leaves a model directory.
#include <gmock/gmock.h>

#include "huggingface/directory/hf_config.h"
#include "tests/support/family_cases.h"
#include "tests/support/safetensors.h"
#include "tests/support/train_fixture.h"

namespace tidepool::model_directory_test {

Config config_of(const test::TrainDir& dir, const std::string& name) {
  Config c = test::small_config(dir);
  c.model_directory = test::family_directory(name);
  c.model = read_model_directory(c.model_directory).value();
  c.data.train = {test::token_file(dir)};
  c.data.format = DataFormat::nanogpt;
  c.train.sequence_length = 16;
  c.train.max_steps = 2;
  c.train.weight_decay = 0;
  return c;
}

class FromModelDirectory : public ::testing::TestWithParam<const char*> {};

TEST_P(FromModelDirectory, WeightsComeAndGoUnchanged) {
  const test::TrainDir dir;
  Config config = config_of(dir, GetParam());
  config.train.learning_rate = 0;
  const auto report = test::run(config);
  ASSERT_TRUE(report) << report.error().message;
  const std::string checkpoint = config.output.dir + "/checkpoint-2";
  const test::Safetensors before(config.model_directory + "/model.safetensors"),
      after(checkpoint + "/model.safetensors");
  for (const std::string& name : before.names())
    EXPECT_EQ(before.get<float>(name), after.get<float>(after.has(name) ? name : name.substr(12)))
        << name;  // "transformer."
  EXPECT_EQ(before.names().size(), after.names().size());
  const ModelConfig again = read_model_directory(checkpoint).value();
  EXPECT_EQ(hf_config_text(again, Precision::fp32), hf_config_text(config.model, Precision::fp32));
}

TEST_P(FromModelDirectory, ARunResumesFromItsCheckpointRatherThanFromTheDirectory) {
  const test::TrainDir dir;
  Config config = config_of(dir, GetParam());
  config.train.max_steps = 4;
  const test::Numbers whole = test::train_numbers(config);
  config.output.dir = dir / "stopped";
  EXPECT_EQ(test::run(config, {.stop_after = 2}).error().kind, ErrorKind::interrupted);
  EXPECT_EQ(test::train_numbers(config, {.resume = "auto"}).weights_xxh3, whole.weights_xxh3);
}

INSTANTIATE_TEST_SUITE_P(Cases, FromModelDirectory,
                         ::testing::Values("gpt2_plain", "llama_untied_llama3", "qwen2_tied",
                                           "qwen3_tied_head_dim"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace tidepool::model_directory_test
