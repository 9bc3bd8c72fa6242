// Direct preference optimization (Rafailov et al., arXiv:2305.18290) and its kin: the reward of a completion
// is beta times its log-probability, less that of a reference model.
#pragma once

#include "objectives/pairs.h"

namespace tidepool {

inline constexpr std::array<std::string_view, 13> dpo_losses = {
    "sigmoid",  "hinge",     "ipo",      "sigmoid_norm", "robust",   "exo_pair",     "nca_pair",
    "bco_pair", "sppo_hard", "apo_zero", "apo_down",     "discopop", chosen_nll_name};

// Those that compare log-ratios, and so may compare them by another divergence than the reverse KL.
inline constexpr std::array<std::string_view, 8> comparing_dpo_losses = {
    "sigmoid", "hinge", "ipo", "sigmoid_norm", "robust", "exo_pair", "discopop", chosen_nll_name};

inline ObjectiveRule dpo_rule(const ObjectiveConfig& c) {
  ObjectiveRule rule = named_losses(c, PairLoss::sigmoid);
  rule.reference = true;
  rule.ld_alpha = c.ld_alpha, rule.weighted = c.use_weighting;
  rule.js_scores = c.f_divergence_type == FDivergence::js_divergence;
  if (c.f_divergence_type == FDivergence::forward_kl) rule.score_curve = 1;
  if (c.f_divergence_type == FDivergence::alpha_divergence) rule.score_curve = 1 - c.f_alpha_divergence_coef;
  return rule;
}

inline constexpr auto dpo_keys = std::to_array<std::string_view>(
    {"max_length", "share_prompts", "beta", "loss_type", "loss_weights", "label_smoothing", "discopop_tau",
     "f_divergence_type", "f_alpha_divergence_coef", "ld_alpha", "use_weighting", "logit_metrics"});

inline constexpr Objective dpo = [] {
  Objective row = preference_objective(reward_metrics, dpo_rule);
  row.losses = dpo_losses, row.adds_losses = true, row.keys = dpo_keys;
  return row;
}();

}  // namespace tidepool
