// Compares perplexity on held-out files with transformers: per file and in all, for any batch size.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <boost/json.hpp>
#include <cmath>

#include "inference/evaluate.h"
#include "tests/support/disk_fixture.h"
#include "tests/support/family_cases.h"
#include "tests/support/file_text.h"
#include "tests/support/model_directory.h"
#include "tests/support/train_fixture.h"

namespace tidepool::perplexity_test {

boost::json::value golden() {
  return boost::json::parse(test::file_text(test::family_directory("perplexity.json")));
}

double number(const boost::json::value& v) { return v.to_number<double>(); }

struct Setting {
  const char* name;
  u32 sequences, micro_batches;
  const char* device = "4MiB";
};

class Perplexity : public ::testing::TestWithParam<Setting> {};

TEST_P(Perplexity, AgreesWithTransformers) {
  const auto& [name, sequences, micro_batches, device] = GetParam();
  const test::ScratchDir dir;
  const auto done = evaluate_model(
      {.source = test::family_directory(name),
       .overrides = {"train.precision=fp32", "train.sequence_length=20",
                     fmt::format("memory.device={}", device), "memory.host=4MiB",
                     fmt::format("train.per_device_train_batch_size={}", sequences),
                     fmt::format("train.gradient_accumulation_steps={}", micro_batches),
                     "output.dir=" + (dir / "run")},
       .data = {test::family_directory("held_out_a.bin"), test::family_directory("held_out_b.bin")},
       .quiet = true});
  ASSERT_TRUE(done) << done.error().message;
  const boost::json::value all = golden();
  const boost::json::value& expected = all.at(name);
  EXPECT_EQ(done->all.result.targets, static_cast<u64>(number(expected.at("tokens"))));
  EXPECT_NEAR(done->all.loss(), number(expected.at("loss")), 1e-5);
  EXPECT_NEAR(std::exp(done->all.loss()), number(expected.at("perplexity")), 1e-3);
  ASSERT_EQ(done->parts.size(), 2u);
  for (const EvaluatedPart& part : done->parts) {
    const std::string file = part.name.substr(part.name.rfind('/') + 1);
    const boost::json::value& of_file = expected.at("files").at(file);
    EXPECT_EQ(part.result.targets, static_cast<u64>(number(of_file.at("tokens")))) << file;
    EXPECT_NEAR(part.loss(), number(of_file.at("loss")), 1e-5) << file;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Perplexity,
                         ::testing::Values(Setting{"gpt2_plain", 1, 1}, Setting{"llama_untied_llama3", 3, 2},
                                           Setting{"mistral_untied", 5, 8},
                                           Setting{"qwen2_tied", 2, 3, "200KiB"},
                                           Setting{"qwen3_tied_head_dim", 64, 1}),
                         [](const auto& info) { return std::string(info.param.name); });

// Regression: perplexity was silently computed in bf16, whatever the weights were.
TEST(PerplexityOfAModelDirectory, IsComputedInThePrecisionOfItsWeights) {
  const test::TrainDir dir;
  const auto precision_used = [&](const std::string& model, std::vector<std::string> overrides) {
    overrides.insert(overrides.end(), {"memory.device=16MiB", "memory.host=16MiB", "train.sequence_length=32",
                                       "train.eval_batches=1", "output.dir=" + (dir / "run")});
    const auto done =
        evaluate_model({.source = model, .overrides = overrides, .data = {dir.data()}, .quiet = true});
    EXPECT_TRUE(done) << done.error().message;
    return done ? name(done->precision) : "";
  };
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    const std::string model = dir / std::string(name(precision)), config = model + "/config.json";
    test::write_model_directory(model, test::small_model(Family::llama), precision);
    EXPECT_EQ(precision_used(model, {}), name(precision));
    EXPECT_EQ(precision_used(model, {"precision=bf16"}), "bf16");
    // The type of the tensors counts if config.json does not say.
    std::string text = test::file_text(config);
    for (size_t at; (at = text.find("dtype")) != std::string::npos;) text.replace(at, 5, "other");
    test::write_file(config, text);
    EXPECT_EQ(precision_used(model, {}), name(precision));
  }
}

}  // namespace tidepool::perplexity_test
