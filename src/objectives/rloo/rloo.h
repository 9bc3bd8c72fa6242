// REINFORCE leave-one-out (Ahmadian et al., arXiv:2402.14740) on rollouts: a completion is an action as a
// whole, and its baseline is the mean reward of the others of its group.
#pragma once

#include "objectives/grpo/grpo.h"

namespace tidepool {

inline ObjectiveRule rloo_rule(const ObjectiveConfig& c) {
  ObjectiveRule rule = rollout_rule(c);
  rule.rollout.ratio = RatioOf::sequence_sum;
  rule.rollout.mean = RolloutMean::of_sequences;
  return rule;
}

inline constexpr auto rloo_keys =
    std::to_array<std::string_view>({"max_length", "share_prompts", "beta", "epsilon", "epsilon_high",
                                     "delta", "use_bias_correction_kl", "logit_metrics"});

inline constexpr Objective rloo = [] {
  Objective row = rollout_objective(rloo_rule);
  row.targets = "completions", row.keys = rloo_keys;
  return row;
}();

}  // namespace tidepool
