// Compares objectives of pairs, answers and rollouts with TRL: losses, metrics and gradients of three
// families.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <cmath>
#include <optional>
#include <span>

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
  // `pair`: the only one of the file's pairs, or of its halves' sequences, that is taken; none: all.
  // `shares`: prompts stand once.
  Units(const Safetensors& file, const ObjectiveRule& rule, std::optional<u32> pair = {}, bool shares = false)
      : rule_(rule), shares_(shares) {
    const u32 pairs = u32(file.get<i32>("lengths").size() / 2);
    const Sequences own = {file, "tokens", "lengths", "references"};
    std::vector<u32> taken;
    for (u32 i = 0; i < 2 * pairs; ++i)
      if (!pair || i % pairs == *pair) taken.push_back(i);
    if (rule.unit == LossUnit::pair) {
      const auto margins = file.get<float>("margins");
      for (const u32 chosen : std::span(taken).first(taken.size() / 2)) {
        const float prompt = static_cast<float>(own.prompts[chosen] - 1);
        add(own, chosen, true, rule.prompt_nll ? prompt : margins[chosen]);
        add(own, pairs + chosen, false, 0, true);
      }
    } else if (rule.unit == LossUnit::judged) {
      const auto verdicts = file.get<float>("verdicts");
      const Sequences others = {file, "mismatched", "mismatched_lengths", "mismatched_references"};
      for (const u32 i : taken) {
        add(own, i, true, verdicts[i]);
        if (rule.sequences > 1) add(others, i, false, 0, true);
      }
    } else {
      const auto advantages = file.get<float>("advantages");
      old_ = file.get<float>("old_logps");
      for (const u32 i : taken) {
        if (i >= pairs && taken.size() > 2) continue;  // a pair's sequences side by side have one prompt
        add(own, i, true, advantages[i]);
        if (taken.size() > 2) add(own, pairs + i, true, advantages[pairs + i], true);
      }
    }
  }

  // Documents of one ignored token each, behind the units.
  void pad(size_t places) {
    while (tokens.size() < places) {
      starts.push_back(i32(tokens.size())), holes.emplace_back();
      tokens.push_back(0), targets.push_back(ignored_target), sequences.push_back(0);
      values.push_back(0), references.push_back(0), old_logps.push_back(0);
    }
  }
  // RETURNS: over what the loss of a step is a mean over.
  double count_of_step() const {
    return rule_.counts_tokens() ? double(std::ranges::count_if(targets, has_loss)) : count;
  }
  RunOptions options() const {
    return {.starts = starts.data(),
            .holes = shares_ ? holes.data() : nullptr,
            .sequences = sequences.data(),
            .values = values.data(),
            .references = rule_.reference ? references.data() : nullptr,
            .old_logps = old_logps.data()};
  }

  std::vector<i32> tokens, targets, starts, sequences;
  std::vector<KeyHole> holes;
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

  // `follows`: has the prompt of the sequence before it.
  void add(const Sequences& from, u32 index, bool first, float value, bool follows = false) {
    const u64 longest = from.tokens.size() / from.lengths.size(), at = index * longest;
    const i32 begin = i32(tokens.size()), length = from.lengths[index],
              places = rule_.scores() ? length : length - 1;
    const i32 left_out = shares_ && follows ? from.prompts[index] - 1 : 0;
    if (left_out == 0) prompt_ = begin;
    count += first;
    for (i32 t = left_out; t < places; ++t) {
      const bool learned =
          rule_.scores() ? t + 1 == places : t + 1 >= from.prompts[index] || (first && rule_.prompt_nll);
      const u64 next = at + u32(t) + 1;
      tokens.push_back(from.tokens[next - 1]);
      targets.push_back(!learned ? ignored_target : rule_.scores() ? 0 : from.tokens[next]);
      starts.push_back(prompt_);
      holes.push_back(left_out > 0 ? KeyHole{prompt_ + left_out, begin} : KeyHole{});
      const i32 length = places - left_out;
      sequences.push_back(t > left_out ? 0 : first ? length : -length);
      values.push_back(t > left_out ? 0 : value);
      references.push_back(rule_.scores() ? 0 : from.references[next]);
      old_logps.push_back(old_.empty() ? 0 : old_[next]);
    }
  }

  const ObjectiveRule& rule_;
  const bool shares_;
  i32 prompt_ = 0;
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
  number("f_alpha_divergence_coef", out.f_alpha_divergence_coef), number("ld_alpha", out.ld_alpha);
  number("alpha", out.alpha);
  if (const auto* named = options.if_contains("f_divergence_type"))
    out.f_divergence_type =
        static_cast<FDivergence>(std::ranges::find(f_divergence_names, std::string_view(named->as_string())) -
                                 f_divergence_names.begin());
  out.use_weighting = options.contains("use_weighting");
  out.logit_metrics = true;
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
                        const Safetensors& expected, bool shares = false) {
    const ObjectiveConfig config = config_of(expected.metadata().at(case_name));
    const ObjectiveRule rule = objective_rule(config);
    const Units units(expected, rule, {}, shares);
    ModelRunner model = model_of(model_directory, rule, units.tokens.size(), shares);
    const double count = units.count_of_step();
    const double sum =
        model.forward_backward(units.tokens.data(), units.targets.data(), 1 / count, units.options());
    expect_near(sum / count, expected.get<double>(case_name + "/loss")[0], "loss");
    for (const ObjectiveMetric& metric : objective(config.type).metrics) {
      const std::string tensor = fmt::format("{}/metrics/{}", case_name, metric.name);
      // TRL has other metrics of losses that clip no ratio.
      if (metric.name.starts_with("clip_ratio") && !expected.has(tensor)) continue;
      expect_near(metric.of(model.sums(), count), expected.get<double>(tensor)[0], metric.name);
    }
    expect_gradients(model, expected, case_name + "/gradients/");
  }

  // A step of four micro-batches, with a pair each.
  void expect_accumulated_as_in_trl(const std::string& model_directory, const std::string& case_name,
                                    const Safetensors& expected) {
    const ObjectiveConfig config = config_of(expected.metadata().at(case_name));
    const ObjectiveRule rule = objective_rule(config);
    std::vector<Units> parts;
    size_t places = 0;
    double count = 0;
    for (const u32 pair : {0, 1, 2, 0}) {
      parts.emplace_back(expected, rule, pair);
      places = std::max(places, parts.back().tokens.size());
      count += parts.back().count_of_step();
    }
    ModelRunner model = model_of(model_directory, rule, places);
    double sum = 0;
    for (u32 k = 0; k < parts.size(); ++k) {
      parts[k].pad(places);
      sum += model.forward_backward(parts[k].tokens.data(), parts[k].targets.data(), 1 / count,
                                    parts[k].options(), k);
    }
    expect_near(sum / count, expected.get<double>(case_name + "/accumulated/loss")[0], "loss");
    expect_gradients(model, expected, case_name + "/accumulated/gradients/");
  }

 private:
  ModelRunner model_of(const std::string& directory, const ObjectiveRule& rule, size_t places,
                       bool holes = false) {
    ModelConfig config = read_model_directory(directory).value();
    config.positions = 1024;  // units stand in one row
    ModelRunner model(build_model(config, Precision::fp32,
                                  {.sequences = 1, .tokens = u32(places), .packed = true, .holes = holes},
                                  Precision::fp32, {}, 0, {UpdateRule{}}, rule)
                          .value(),
                      *pool_);
    WeightsWriter writer(model.weights);
    EXPECT_TRUE(load_weights(directory, model.graph(), writer));
    model.upload();
    return model;
  }
  static void expect_gradients(ModelRunner& model, const Safetensors& expected, const std::string& place) {
    u64 compared = 0;
    for (const auto& [tensor, gradient] : model.gradients()) {
      if (!expected.has(place + tensor)) continue;
      EXPECT_LT(distance(gradient, expected.get<float>(place + tensor)), tolerance) << place << tensor;
      ++compared;
    }
    EXPECT_EQ(compared, expected.count(place));
    EXPECT_GT(compared, 0u);
  }
  static void expect_near(double is, double wanted, std::string_view what) {
    EXPECT_LT(std::abs(is - wanted), tolerance * std::max(1.0, std::abs(wanted))) << what;
  }

  std::unique_ptr<CorePool> pool_ = make_pool(2);
};

TEST_P(Objectives, AgreeWithTrl) {
  const Safetensors expected{source_file("tests/golden/objectives/") + GetParam() + "/expected.safetensors"};
  const bool shares = can_share_prompts(read_model_directory(family_directory(GetParam())).value(), 64);
  EXPECT_EQ(shares, GetParam() != std::string_view("gemma2_tied"));  // which has windows
  u32 cases = 0;
  for (const auto& [name, options] : expected.metadata()) {
    if (!options.starts_with("{")) continue;
    SCOPED_TRACE(name);
    expect_as_in_trl(family_directory(GetParam()), name, expected);
    expect_accumulated_as_in_trl(family_directory(GetParam()), name, expected);
    if (shares) expect_as_in_trl(family_directory(GetParam()), name, expected, true);
    ++cases;
  }
  EXPECT_EQ(cases, 47u);
}

TEST_P(Objectives, RewardsAgreeWithTrl) {
  const std::string directory = source_file("tests/golden/objectives/reward_") + GetParam();
  const Safetensors expected{directory + "/expected.safetensors"};
  expect_as_in_trl(directory, "reward", expected);
  expect_accumulated_as_in_trl(directory, "reward", expected);
}

INSTANTIATE_TEST_SUITE_P(All, Objectives, testing::Values("llama_tied", "qwen3_untied", "gemma2_tied"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace tidepool::test::objectives_test
