// Simple preference optimization (Meng et al., arXiv:2405.14734): mean log-probabilities of both completions,
// apart by a margin. There is no reference model, and no cross-entropy.
#pragma once

#include "objectives/cpo/cpo.h"

namespace tidepool {

inline ObjectiveRule simpo_rule(const ObjectiveConfig& c) {
  ObjectiveConfig as_cpo = c;
  as_cpo.loss_type = {"simpo"};
  as_cpo.cpo_alpha = 0;
  return cpo_rule(as_cpo);
}

inline constexpr auto simpo_keys = std::to_array<std::string_view>(
    {"max_length", "share_prompts", "beta", "label_smoothing", "simpo_gamma", "alpha", "logit_metrics"});

inline constexpr Objective simpo = [] {
  Objective row = preference_objective(reward_metrics, simpo_rule);
  row.keys = simpo_keys;
  return row;
}();

}  // namespace tidepool
