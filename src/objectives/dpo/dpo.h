// Direct preference optimization (Rafailov et al., arXiv:2305.18290) and its kin: the reward of a completion
// is beta times its log-probability, less that of a reference model.
#pragma once

#include "objectives/pairs.h"

namespace tidepool {

inline constexpr std::array dpo_losses = {PairLoss::sigmoid,      PairLoss::hinge,    PairLoss::ipo,
                                          PairLoss::sigmoid_norm, PairLoss::robust,   PairLoss::exo_pair,
                                          PairLoss::nca_pair,     PairLoss::bco_pair, PairLoss::sppo_hard,
                                          PairLoss::apo_zero,     PairLoss::apo_down, PairLoss::discopop};

inline ObjectiveRule dpo_rule(const ObjectiveConfig& c) {
  ObjectiveRule rule = named_losses(c, PairLoss::sigmoid);
  rule.reference = true;
  return rule;
}

inline constexpr Objective dpo = [] {
  Objective row = preference_objective(reward_metrics, dpo_rule);
  row.losses = dpo_losses, row.nll = true;
  return row;
}();

}  // namespace tidepool
