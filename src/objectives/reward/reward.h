// Reward models: the score of a text's last token, higher for the chosen text than for the rejected one
// (Bradley and Terry), by a margin if the data has one.
#pragma once

#include "objectives/pairs.h"

namespace tidepool {

inline constexpr std::array<ObjectiveMetric, 3> score_metrics = {
    {{"accuracy", mean_of<Sum::correct>},
     {"margin", mean_margin},
     {"mean_reward", [](const Sums& sums, double targets) {
        return (sums[Sum::chosen_rewards] + sums[Sum::rejected_rewards]) / (2 * targets);
      }}}};

inline ObjectiveRule reward_rule(const ObjectiveConfig& c) {
  ObjectiveRule rule = pair_rule(c, PairLoss::scores);
  rule.center = c.center_rewards_coefficient;
  return rule;
}

inline constexpr auto reward_keys =
    std::to_array<std::string_view>({"max_length", "share_prompts", "center_rewards_coefficient"});

inline constexpr Objective reward = {.documents = Documents::scored_pairs,
                                     .scores = true,
                                     .targets = "pairs",
                                     .takes = "chosen and rejected",
                                     .figure = {.metric = "eval_accuracy",
                                                .word = "accuracy",
                                                .of = mean_of<Sum::correct>,
                                                .text = significant_text},
                                     .metrics = score_metrics,
                                     .keys = reward_keys,
                                     .rule = reward_rule};

}  // namespace tidepool
