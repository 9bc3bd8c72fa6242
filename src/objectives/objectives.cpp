#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "objectives/cpo/cpo.h"
#include "objectives/distill/distill.h"
#include "objectives/dpo/dpo.h"
#include "objectives/grpo/grpo.h"
#include "objectives/kto/kto.h"
#include "objectives/next_token/next_token.h"
#include "objectives/orpo/orpo.h"
#include "objectives/reward/reward.h"
#include "objectives/rloo/rloo.h"
#include "objectives/sequence_classification/sequence_classification.h"
#include "objectives/simpo/simpo.h"
#include "objectives/token_classification/token_classification.h"

namespace tidepool {

const Objective& objective(ObjectiveType type) {
  static constexpr std::array<Objective, objective_count> rows = {
      next_token, sequence_classification, reward, dpo, orpo, cpo, simpo, kto, grpo,
      rloo,       token_classification,    distill};
  return rows[static_cast<u32>(type)];
}

ObjectiveRule objective_rule(const ObjectiveConfig& config) {
  const Objective& of = objective(config.type);
  if (of.rule == nullptr) return {.label_smoothing = config.label_smoothing};
  ObjectiveConfig complete = config;
  if (config.beta == static_cast<double>(beta_by_objective)) complete.beta = of.beta;
  ObjectiveRule rule = of.rule(complete);
  rule.logit_metrics = config.logit_metrics;
  return rule;
}

UnitSettings unit_settings(const ObjectiveConfig& config, const ModelConfig& model, u32 row_places) {
  const ObjectiveRule rule = objective_rule(config);
  const Documents documents = objective(config.type).documents;
  if (rule.divergence.on() && config.teacher.empty())
    return {.documents = Documents::distributions,
            .numbers = rule.divergence.numbers(),
            .temperature = rule.divergence.temperature,
            .taught = true};
  if (documents == Documents::token_labels) return {.documents = documents, .numbers = 1};
  UnitSettings out = {.documents = documents,
                      .numbers = documents == Documents::rollouts ? 1u : 0u,
                      .taught = rule.divergence.on(),
                      .sequences = rule.sequences,
                      .count_tokens = rule.counts_tokens(),
                      .shares = config.share_prompts && can_share_prompts(model, row_places) &&
                                (rule.sequences > 1 || documents == Documents::rollouts),
                      .advantages = {.leave_one_out = config.type == ObjectiveType::rloo,
                                     .scaled = config.type == ObjectiveType::grpo &&
                                               config.scale_rewards == ScaleRewards::group}};
  if (!out.on()) return {.taught = out.taught};
  // The last token of a completion is only a target; a score is that of the last token's own place.
  const u32 fits = row_places / out.sequences + (out.scored() ? 0 : 1);
  out.sequence_tokens_max = config.max_length == 0 ? fits : std::min(config.max_length, fits);
  return out;
}

std::optional<double> value_of(const ObjectiveMetric& metric, const Sums& sums, double targets) {
  if (metric.of_logits && sums[Sum::entropies] == 0) return std::nullopt;
  const double value = metric.of(sums, targets);
  // With a loss that is no number, nothing else is one.
  return std::isnan(value) && !std::isnan(sums[Sum::loss]) ? std::nullopt : std::optional(value);
}

std::vector<std::string> evaluation_metrics(const Objective& of, bool logit_metrics) {
  std::vector<std::string> out = {std::string(of.figure.metric)};
  for (const ObjectiveMetric& metric : of.metrics) {
    if (metric.of_logits && !logit_metrics) continue;
    std::string name = "eval_" + std::string(metric.name);
    if (name != out.front()) out.push_back(std::move(name));
  }
  return out;
}

std::string evaluation_metric_name(std::string_view name) {
  constexpr std::string_view prefix = "eval_";
  if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  return name == next_token.figure.metric ? std::string(name) : fmt::format("{}{}", prefix, name);
}

double evaluation_metric(const Objective& of, std::string_view name, const Sums& sums, double targets) {
  if (name == of.figure.metric) return of.figure.of(sums, targets);
  name.remove_prefix(std::string_view("eval_").size());
  const auto metric = std::ranges::find(of.metrics, name, &ObjectiveMetric::name);
  return value_of(*metric, sums, targets).value_or(std::numeric_limits<double>::quiet_NaN());
}

bool can_share_prompts(const ModelConfig& model, u32 row_places) {
  if (!can_pack(model.family)) return false;
  for (u32 layer = 0; layer < model.layers; ++layer) {
    const u32 window = model.attention_window(layer);
    if (model.mixer_kind(layer) != MixerKind::softmax || (window != 0 && window < row_places)) return false;
  }
  return true;
}

bool may_compare(const ObjectiveRule& rule) { return rule.reference || rule.unit == LossUnit::rollout; }

}  // namespace tidepool
