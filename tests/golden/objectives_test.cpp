// Compares objectives of pairs with TRL: losses, metrics and gradients of three families.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <boost/json/array.hpp>
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

namespace tidepool::test::objectives_test {

constexpr double tolerance = 1e-5;

// The pairs side by side in one row, each sequence at places of its own.
struct Pairs {
  std::vector<i32> tokens, targets, starts, sequences;
  std::vector<float> values, references;
  u32 places = 0;

  // `sequence`: in the order of the file, chosen ones first. `margin`: of a reward model's pairs.
  void add(const Safetensors& file, const ObjectiveRule& rule, u32 sequence, bool first, float margin) {
    const auto ids = file.get<i32>("tokens"), lengths = file.get<i32>("lengths"),
               prompts = file.get<i32>("prompts");
    const auto logps = file.get<float>("references");
    const u32 longest = u32(ids.size() / lengths.size()), begin = places;
    const i32* const from = ids.data() + sequence * longest;
    const i32 length = lengths[sequence], count = rule.scores() ? length : length - 1;
    for (i32 t = 0; t < count; ++t) {
      const bool learned =
          rule.scores() ? t + 1 == count : t + 1 >= prompts[sequence] || (first && rule.prompt_nll);
      tokens.push_back(from[t]);
      targets.push_back(!learned ? ignored_target : rule.scores() ? 0 : from[t + 1]);
      starts.push_back(i32(begin));
      sequences.push_back(t > 0 ? 0 : first ? count : -count);
      values.push_back(t > 0 || !first ? 0 : rule.prompt_nll ? float(prompts[sequence] - 1) : margin);
      references.push_back(rule.scores() ? 0 : logps[sequence * longest + u32(t) + 1]);
      ++places;
    }
  }
};

Pairs pairs_of(const Safetensors& file, const ObjectiveRule& rule) {
  Pairs out;
  const auto margins = file.get<float>("margins");
  for (u32 pair = 0; pair < margins.size(); ++pair) {
    out.add(file, rule, pair, true, margins[pair]);
    out.add(file, rule, u32(margins.size()) + pair, false, 0);
  }
  return out;
}

ObjectiveConfig config_of(const std::string& text) {
  const boost::json::object options = boost::json::parse(text).as_object();
  ObjectiveConfig out;
  const auto number = [&](const char* key, double& to) {
    if (const auto* v = options.if_contains(key)) to = v->to_number<double>();
  };
  const auto type = std::ranges::find(objective_names, std::string_view(options.at("type").as_string()));
  out.type = static_cast<ObjectiveType>(type - objective_names.begin());
  number("beta", out.beta), number("label_smoothing", out.label_smoothing),
      number("cpo_alpha", out.cpo_alpha);
  number("simpo_gamma", out.simpo_gamma),
      number("center_rewards_coefficient", out.center_rewards_coefficient);
  if (const auto* losses = options.if_contains("loss_type"))
    for (const auto& loss : losses->as_array()) out.loss_type.emplace_back(loss.as_string());
  if (const auto* weights = options.if_contains("loss_weights"))
    for (const auto& weight : weights->as_array()) out.loss_weights.push_back(weight.to_number<double>());
  return out;
}

class Objectives : public testing::TestWithParam<const char*> {
 protected:
  void expect_as_in_trl(const std::string& model_directory, const std::string& case_name,
                        const Safetensors& expected) {
    const std::string name = case_name;
    const ObjectiveConfig config = config_of(expected.metadata().at(name));
    const ObjectiveRule rule = objective_rule(config);
    const Pairs pairs = pairs_of(expected, rule);
    ModelRunner model(build_model(read_model_directory(model_directory).value(), Precision::fp32,
                                  {.sequences = 1, .tokens = pairs.places, .packed = true}, Precision::fp32,
                                  {}, 0, {UpdateRule{}}, rule)
                          .value(),
                      *pool_);
    WeightsWriter writer(model.weights);
    ASSERT_TRUE(load_weights(model_directory, model.graph(), writer));
    model.upload();
    const double count = double(expected.get<float>("margins").size());
    const double sum =
        model.forward_backward(pairs.tokens.data(), pairs.targets.data(), 1 / count,
                               {.starts = pairs.starts.data(),
                                .sequences = pairs.sequences.data(),
                                .values = pairs.values.data(),
                                .references = rule.reference ? pairs.references.data() : nullptr});
    expect_near(sum / count, expected.get<double>(name + "/loss")[0], "loss");
    for (const ObjectiveMetric& metric : objective(config.type).metrics)
      expect_near(metric.of(model.sums(), count),
                  expected.get<double>(fmt::format("{}/metrics/{}", name, metric.name))[0], metric.name);
    const std::string gradients = name + "/gradients/";
    u64 compared = 0;
    for (const auto& [tensor, gradient] : model.gradients()) {
      if (!expected.has(gradients + tensor)) continue;
      EXPECT_LT(distance(gradient, expected.get<float>(gradients + tensor)), tolerance)
          << name << " " << tensor;
      ++compared;
    }
    EXPECT_EQ(compared, expected.count(gradients));
  }

 private:
  static void expect_near(double is, double wanted, std::string_view what) {
    EXPECT_LT(std::abs(is - wanted), tolerance * std::max(1.0, std::abs(wanted))) << what;
  }

  std::unique_ptr<CorePool> pool_ = make_pool(2);
};

TEST_P(Objectives, PreferencesAgreeWithTrl) {
  const Safetensors expected{source_file("tests/golden/objectives/") + GetParam() + "/expected.safetensors"};
  u32 cases = 0;
  for (const auto& [name, options] : expected.metadata()) {
    if (!options.starts_with("{")) continue;
    SCOPED_TRACE(name);
    expect_as_in_trl(family_directory(GetParam()), name, expected);
    ++cases;
  }
  EXPECT_EQ(cases, 19u);
}

TEST_P(Objectives, RewardsAgreeWithTrl) {
  const std::string directory = source_file("tests/golden/objectives/reward_") + GetParam();
  expect_as_in_trl(directory, "reward", Safetensors{directory + "/expected.safetensors"});
}

INSTANTIATE_TEST_SUITE_P(All, Objectives, testing::Values("llama_tied", "qwen3_untied", "gemma2_tied"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace tidepool::test::objectives_test
