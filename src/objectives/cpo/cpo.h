// Contrastive preference optimization (Xu et al., arXiv:2401.08417): as DPO without a reference model, and
// the cross-entropy of the chosen completion.
#pragma once

#include "objectives/pairs.h"

namespace tidepool {

inline constexpr std::array<std::string_view, 4> cpo_losses = {"sigmoid", "hinge", "ipo", "simpo"};
inline constexpr auto cpo_metrics = with_reward_metrics<1>({{{"nll_loss", mean_of<Sum::chosen_nll>}}});

// Losses of means tell means.
inline ObjectiveRule cpo_rule(const ObjectiveConfig& c) {
  ObjectiveRule rule = named_losses(c, PairLoss::sigmoid);
  rule.chosen_nll = c.cpo_alpha;
  rule.sigmoid_smoothing = c.label_smoothing;
  rule.margin = c.simpo_gamma / c.beta;
  rule.score_curve = c.alpha;
  rule.mean = rule.losses[0].loss == PairLoss::ipo || rule.losses[0].loss == PairLoss::simpo;
  return rule;
}

inline constexpr auto cpo_keys =
    std::to_array<std::string_view>({"max_length", "share_prompts", "beta", "loss_type", "label_smoothing",
                                     "cpo_alpha", "simpo_gamma", "alpha", "logit_metrics"});

inline constexpr Objective cpo = [] {
  Objective row = preference_objective(cpo_metrics, cpo_rule);
  row.losses = cpo_losses, row.keys = cpo_keys;
  return row;
}();

}  // namespace tidepool
