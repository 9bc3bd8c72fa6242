// Compares distillation and label smoothing with TRL and transformers, and classifiers of tokens with
// transformers: losses and gradients of three families.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <cmath>

#include "config/config.h"
#include "huggingface/directory/hf_config.h"
#include "huggingface/weights/load_weights.h"
#include "objectives/objective.h"
#include "tests/support/family_cases.h"
#include "tests/support/golden_steps.h"
#include "tests/support/model_runner.h"
#include "tests/support/places.h"
#include "tests/support/safetensors.h"

namespace tidepool::test::targets_test {

constexpr double tolerance = 1e-5;
constexpr u32 rows = 3, places = 12;

ObjectiveRule rule_of(const std::string& text) {
  const boost::json::object options = boost::json::parse(text).as_object();
  ObjectiveConfig out;
  if (options.at("type") == "distill") out.type = ObjectiveType::distill;
  const auto number = [&](const char* key, double& to) {
    if (const auto* v = options.if_contains(key)) to = v->to_number<double>();
  };
  number("beta", out.beta), number("temperature", out.temperature);
  number("label_smoothing", out.label_smoothing);
  if (const auto* k = options.if_contains("top_k")) out.top_k = u32(k->as_int64());
  if (const auto* remainder = options.if_contains("remainder"))
    out.remainder = *remainder == "renormalized" ? Remainder::renormalized : Remainder::bucket;
  return objective_rule(out);
}

class Targets : public testing::TestWithParam<const char*> {
 protected:
  ModelRunner load(const std::string& directory, const ObjectiveRule& rule) {
    ModelRunner model(
        build_model(read_model_directory(directory).value(), Precision::fp32,
                    {.sequences = rows, .tokens = places}, Precision::fp32, {}, 0, {UpdateRule{}}, rule)
            .value(),
        *pool_);
    WeightsWriter writer(model.weights);
    EXPECT_TRUE(load_weights(directory, model.graph(), writer));
    model.upload();
    return model;
  }

  static void expect_gradients(ModelRunner& model, const Safetensors& expected, const std::string& prefix) {
    u64 compared = 0;
    for (const auto& [tensor, gradient] : model.gradients()) {
      if (!expected.has(prefix + tensor)) continue;
      EXPECT_LT(distance(gradient, expected.get<float>(prefix + tensor)), tolerance) << tensor;
      ++compared;
    }
    EXPECT_EQ(compared, expected.count(prefix));
  }

  static void expect_loss(ModelRunner& model, const Safetensors& expected, const std::string& tensor,
                          const float* distributions) {
    const auto tokens = expected.get<i32>("tokens"), targets = expected.get<i32>("targets");
    const auto count = double(std::ranges::count_if(targets, has_loss));
    const double sum =
        model.forward_backward(tokens.data(), targets.data(), 1 / count, {.distributions = distributions});
    const double wanted = expected.get<double>(tensor)[0];
    EXPECT_LT(std::abs(sum / count - wanted), tolerance * std::max(1.0, std::abs(wanted)));
  }

  std::unique_ptr<CorePool> pool_ = make_pool(2);
};

TEST_P(Targets, AgreeWithTrlAndTransformers) {
  const Safetensors expected{source_file("tests/golden/targets/") + GetParam() + "/expected.safetensors"};
  u32 cases = 0;
  for (const auto& [name, options] : expected.metadata()) {
    if (!options.starts_with("{")) continue;
    SCOPED_TRACE(name);
    ModelRunner model = load(family_directory(GetParam()), rule_of(options));
    const std::string distributions = name + "/distributions";
    const auto given =
        expected.has(distributions) ? expected.get<float>(distributions) : std::vector<float>();
    expect_loss(model, expected, name + "/loss", given.data());
    expect_gradients(model, expected, name + "/gradients/");
    ++cases;
  }
  EXPECT_EQ(cases, 10u);
}

TEST_P(Targets, LabelsOfTokensAgreeWithTransformers) {
  const std::string directory = source_file("tests/golden/targets/tokens_") + GetParam();
  const Safetensors expected{directory + "/expected.safetensors"};
  ModelRunner model = load(directory, objective_rule({.type = ObjectiveType::token_classification}));
  expect_loss(model, expected, "loss", nullptr);
  expect_gradients(model, expected, "gradients/");
}

INSTANTIATE_TEST_SUITE_P(All, Targets, testing::Values("llama_tied", "qwen3_untied", "gemma2_tied"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace tidepool::test::targets_test
