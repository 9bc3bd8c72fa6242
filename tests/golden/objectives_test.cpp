// Compares objectives of pairs, answers and rollouts with TRL: losses, metrics and gradients of three
// families.
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

// Units side by side in one row, each sequence at places of its own.
class Units {
 public:
  Units(const Safetensors& file, const ObjectiveRule& rule) : rule_(rule) {
    const auto all = file.get<i32>("lengths").size();
    const Sequences own = {file, "tokens", "lengths", "references"};
    if (rule.unit == LossUnit::pair) {
      const auto margins = file.get<float>("margins");
      for (u32 pair = 0; pair < all / 2; ++pair) {
        const float prompt = static_cast<float>(own.prompts[pair] - 1);
        add(own, pair, true, rule.prompt_nll ? prompt : margins[pair]);
        add(own, u32(all / 2) + pair, false, 0);
      }
    } else if (rule.unit == LossUnit::judged) {
      const auto verdicts = file.get<float>("verdicts");
      const Sequences others = {file, "mismatched", "mismatched_lengths", "mismatched_references"};
      for (u32 i = 0; i < all; ++i) {
        add(own, i, true, verdicts[i]);
        if (rule.sequences > 1) add(others, i, false, 0);
      }
    } else {
      const auto advantages = file.get<float>("advantages");
      old_ = file.get<float>("old_logps");
      for (u32 i = 0; i < all; ++i) add(own, i, true, advantages[i]);
    }
  }

  std::vector<i32> tokens, targets, starts, sequences;
  std::vector<float> values, references, old_logps;
  u32 count = 0;

 private:
  struct Sequences {
    Sequences(const Safetensors& file, const char* ids, const char* of, const char* by)
        : tokens(file.get<i32>(ids)),
          lengths(file.get<i32>(of)),
          prompts(file.get<i32>("prompts")),
          references(file.has(by) ? file.get<float>(by) : std::vector<float>(tokens.size())) {}
    std::vector<i32> tokens, lengths, prompts;
    std::vector<float> references;
  };

  void add(const Sequences& from, u32 index, bool first, float value) {
    const u64 longest = from.tokens.size() / from.lengths.size(), at = index * longest;
    const i32 begin = i32(tokens.size()), length = from.lengths[index],
              places = rule_.scores() ? length : length - 1;
    count += first;
    for (i32 t = 0; t < places; ++t) {
      const bool learned =
          rule_.scores() ? t + 1 == places : t + 1 >= from.prompts[index] || (first && rule_.prompt_nll);
      const u64 next = at + u32(t) + 1;
      tokens.push_back(from.tokens[next - 1]);
      targets.push_back(!learned ? ignored_target : rule_.scores() ? 0 : from.tokens[next]);
      starts.push_back(begin);
      sequences.push_back(t > 0 ? 0 : first ? places : -places);
      values.push_back(t > 0 ? 0 : value);
      references.push_back(rule_.scores() ? 0 : from.references[next]);
      old_logps.push_back(old_.empty() ? 0 : old_[next]);
    }
  }

  const ObjectiveRule& rule_;
  std::vector<float> old_;
};

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
  number("desirable_weight", out.desirable_weight), number("undesirable_weight", out.undesirable_weight);
  number("epsilon", out.epsilon), number("epsilon_high", out.epsilon_high), number("delta", out.delta);
  if (const auto* length = options.if_contains("max_completion_length"))
    out.max_completion_length = u32(length->as_int64());
  if (const auto* corrects = options.if_contains("use_bias_correction_kl"))
    out.use_bias_correction_kl = corrects->as_bool();
  if (options.contains("importance_sampling_level"))
    out.importance_sampling_level = ImportanceLevel::sequence;
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
    const Units units(expected, rule);
    ModelConfig of_directory = read_model_directory(model_directory).value();
    of_directory.positions = 1024;  // units stand in one row
    ModelRunner model(build_model(of_directory, Precision::fp32,
                                  {.sequences = 1, .tokens = u32(units.tokens.size()), .packed = true},
                                  Precision::fp32, {}, 0, {UpdateRule{}}, rule)
                          .value(),
                      *pool_);
    WeightsWriter writer(model.weights);
    ASSERT_TRUE(load_weights(model_directory, model.graph(), writer));
    model.upload();
    const double count =
        rule.counts_tokens() ? double(std::ranges::count_if(units.targets, has_loss)) : units.count;
    const double sum =
        model.forward_backward(units.tokens.data(), units.targets.data(), 1 / count,
                               {.starts = units.starts.data(),
                                .sequences = units.sequences.data(),
                                .values = units.values.data(),
                                .references = rule.reference ? units.references.data() : nullptr,
                                .old_logps = units.old_logps.data()});
    expect_near(sum / count, expected.get<double>(name + "/loss")[0], "loss");
    for (const ObjectiveMetric& metric : objective(config.type).metrics) {
      const std::string tensor = fmt::format("{}/metrics/{}", name, metric.name);
      if (config.loss_type == std::vector<std::string>{"cispo"} && !expected.has(tensor)) continue;
      expect_near(metric.of(model.sums(), count), expected.get<double>(tensor)[0], metric.name);
    }
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

TEST_P(Objectives, AgreeWithTrl) {
  const Safetensors expected{source_file("tests/golden/objectives/") + GetParam() + "/expected.safetensors"};
  u32 cases = 0;
  for (const auto& [name, options] : expected.metadata()) {
    if (!options.starts_with("{")) continue;
    SCOPED_TRACE(name);
    expect_as_in_trl(family_directory(GetParam()), name, expected);
    ++cases;
  }
  EXPECT_EQ(cases, 31u);
}

TEST_P(Objectives, RewardsAgreeWithTrl) {
  const std::string directory = source_file("tests/golden/objectives/reward_") + GetParam();
  expect_as_in_trl(directory, "reward", Safetensors{directory + "/expected.safetensors"});
}

INSTANTIATE_TEST_SUITE_P(All, Objectives, testing::Values("llama_tied", "qwen3_untied", "gemma2_tied"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace tidepool::test::objectives_test
