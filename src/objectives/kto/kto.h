// Kahneman-Tversky optimization (Ethayarajh et al., arXiv:2402.01306): answers that are desirable or not,
// each against what the policy has moved on average. That is estimated from answers to other prompts.
#pragma once

#include <array>

#include "base/text/units.h"
#include "objectives/means.h"

namespace tidepool {

inline constexpr std::array<std::string_view, 2> kto_losses = {"kto", "apo_zero_unpaired"};

template <Sum sum>
double mean_over_rejected(const Sums& sums, double) {
  return sums[sum] / (sums[Sum::units] - sums[Sum::chosen_units]);
}
inline double judged_margin(const Sums& sums, double targets) {
  return mean_over<Sum::chosen_rewards, Sum::chosen_units>(sums, targets) -
         mean_over_rejected<Sum::rejected_rewards>(sums, targets);
}

inline constexpr std::array<ObjectiveMetric, 9> kto_metrics = {
    {{"rewards/chosen", mean_over<Sum::chosen_rewards, Sum::chosen_units>},
     {"rewards/rejected", mean_over_rejected<Sum::rejected_rewards>},
     {"rewards/margins", judged_margin},
     {"logps/chosen", mean_over<Sum::chosen_logps, Sum::chosen_units>},
     {"logps/rejected", mean_over_rejected<Sum::rejected_logps>},
     {"kl", mean_over<Sum::kl, Sum::units>},
     mean_entropy,
     mean_chosen_logits,
     mean_rejected_logits}};

// apo_zero_unpaired needs no estimate, and so no answers to other prompts.
inline ObjectiveRule kto_rule(const ObjectiveConfig& c) {
  const bool estimates = c.loss_type.empty() || c.loss_type[0] == "kto";
  return {.unit = LossUnit::judged,
          .sequences = estimates ? 2u : 1u,
          .beta = c.beta,
          .reference = true,
          .desirable_weight = c.desirable_weight,
          .undesirable_weight = c.undesirable_weight};
}

inline constexpr auto kto_keys =
    std::to_array<std::string_view>({"max_length", "share_prompts", "beta", "loss_type", "desirable_weight",
                                     "undesirable_weight", "logit_metrics"});

inline constexpr Objective kto = {.documents = Documents::judged,
                                  .targets = "answers",
                                  .takes = "prompt, completion and label",
                                  .figure = {.metric = "eval_rewards/margins",
                                             .word = "margin",
                                             .of = judged_margin,
                                             .text = significant_text},
                                  .metrics = kto_metrics,
                                  .losses = kto_losses,
                                  .keys = kto_keys,
                                  .rule = kto_rule};

}  // namespace tidepool
