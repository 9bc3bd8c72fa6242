// Direct preference optimization (Rafailov et al., arXiv:2305.18290) and its kin: the reward of a completion
// is beta times its log-probability, less that of a reference model.
#pragma once

#include "objectives/pairs.h"

namespace tidepool {

inline constexpr std::array<std::string_view, 13> dpo_losses = {
    "sigmoid",  "hinge",     "ipo",      "sigmoid_norm", "robust",   "exo_pair",     "nca_pair",
    "bco_pair", "sppo_hard", "apo_zero", "apo_down",     "discopop", chosen_nll_name};

inline ObjectiveRule dpo_rule(const ObjectiveConfig& c) {
  ObjectiveRule rule = named_losses(c, PairLoss::sigmoid);
  rule.reference = true;
  return rule;
}

inline constexpr Objective dpo = [] {
  Objective row = preference_objective(reward_metrics, dpo_rule);
  row.losses = dpo_losses, row.adds_losses = true;
  return row;
}();

}  // namespace tidepool
