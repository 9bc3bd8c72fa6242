// The parts that objectives of pairs have in common.
#pragma once

#include <algorithm>
#include <array>

#include "base/text/units.h"
#include "objectives/means.h"

namespace tidepool {

inline double mean_margin(const Sums& sums, double targets) {
  return (sums[Sum::chosen_rewards] - sums[Sum::rejected_rewards]) / targets;
}

inline constexpr std::array<ObjectiveMetric, 10> reward_metrics = {
    {{"rewards/chosen", mean_of<Sum::chosen_rewards>},
     {"rewards/rejected", mean_of<Sum::rejected_rewards>},
     {"rewards/accuracies", mean_of<Sum::correct>},
     {"rewards/margins", mean_margin},
     {"logps/chosen", mean_of<Sum::chosen_logps>},
     {"logps/rejected", mean_of<Sum::rejected_logps>},
     {"mean_token_accuracy", mean_over<Sum::chosen_correct, Sum::chosen_tokens>},
     mean_entropy,
     mean_chosen_logits,
     mean_rejected_logits}};

// Those, and `more` behind them.
template <std::size_t n>
constexpr std::array<ObjectiveMetric, reward_metrics.size() + n> with_reward_metrics(
    const std::array<ObjectiveMetric, n>& more) {
  std::array<ObjectiveMetric, reward_metrics.size() + n> out{};
  std::ranges::copy(more, std::ranges::copy(reward_metrics, out.begin()).out);
  return out;
}

inline constexpr EvaluationFigure pair_accuracy = {.metric = "eval_rewards/accuracies",
                                                   .word = "accuracy",
                                                   .of = mean_of<Sum::correct>,
                                                   .text = significant_text};

// A row of an objective of preferences, without its losses.
constexpr Objective preference_objective(std::span<const ObjectiveMetric> metrics,
                                         ObjectiveRule (*rule)(const ObjectiveConfig&)) {
  return {.documents = Documents::pairs,
          .targets = "pairs",
          .takes = "chosen and rejected",
          .figure = pair_accuracy,
          .metrics = metrics,
          .rule = rule};
}

inline ObjectiveRule pair_rule(const ObjectiveConfig& c) {
  return {.unit = LossUnit::pair, .sequences = 2, .beta = c.beta};
}
// With one loss.
inline ObjectiveRule pair_rule(const ObjectiveConfig& c, PairLoss loss) {
  ObjectiveRule rule = pair_rule(c);
  rule.losses[rule.loss_count++] = {loss};
  return rule;
}

// The losses that `loss_type` names with their weights, or `otherwise`.
inline ObjectiveRule named_losses(const ObjectiveConfig& c, PairLoss otherwise) {
  ObjectiveRule rule = pair_rule(c);
  rule.label_smoothing = c.label_smoothing, rule.discopop_tau = c.discopop_tau;
  if (c.loss_type.empty()) rule.losses[rule.loss_count++] = {otherwise};
  for (std::size_t i = 0; i < c.loss_type.size(); ++i) {
    const double weight = i < c.loss_weights.size() ? c.loss_weights[i] : 1;
    const auto at = std::ranges::find(pair_loss_names, c.loss_type[i]);
    if (at == pair_loss_names.end())
      rule.chosen_nll += weight;
    else if (rule.loss_count < pair_losses_max)
      rule.losses[rule.loss_count++] = {static_cast<PairLoss>(at - pair_loss_names.begin()), weight};
  }
  return rule;
}

}  // namespace tidepool
