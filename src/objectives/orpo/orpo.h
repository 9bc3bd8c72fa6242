// Odds ratio preference optimization (Hong et al., arXiv:2403.07691): the cross-entropy of the chosen
// sequence, its prompt included, and the odds of both completions. There is no reference model.
#pragma once

#include "objectives/pairs.h"

namespace tidepool {

inline constexpr auto orpo_metrics =
    with_reward_metrics<3>({{{"nll_loss", mean_of<Sum::chosen_nll>},
                             {"log_odds_ratio", mean_of<Sum::log_odds_ratio>},
                             {"log_odds_chosen", mean_of<Sum::log_odds>}}});

inline ObjectiveRule orpo_rule(const ObjectiveConfig& c) {
  ObjectiveRule rule = pair_rule(c, PairLoss::odds_ratio);
  rule.chosen_nll = 1, rule.prompt_nll = true, rule.mean = true;
  return rule;
}

inline constexpr auto orpo_keys =
    std::to_array<std::string_view>({"max_length", "share_prompts", "beta", "logit_metrics"});

inline constexpr Objective orpo = [] {
  Objective row = preference_objective(orpo_metrics, orpo_rule);
  row.documents = Documents::prompted_pairs, row.keys = orpo_keys;
  return row;
}();

}  // namespace tidepool
