// Means of sums, as metrics tell them, and keys that objectives have in common.
#pragma once

#include <array>

#include "objectives/objective.h"

namespace tidepool {

// Keys of objectives whose targets each have a loss.
inline constexpr auto smoothed_target_keys = std::to_array<std::string_view>({"label_smoothing"});

// Over what the step's loss is a mean over.
template <Sum sum>
double mean_of(const Sums& sums, double targets) {
  return sums[sum] / targets;
}
// NaN if there is nothing to take a mean over.
template <Sum sum, Sum over>
double mean_over(const Sums& sums, double) {
  return sums[sum] / sums[over];
}

inline double mean_of_rejected_logits(const Sums& sums, double) {
  return sums[Sum::rejected_logits] / (sums[Sum::tokens] - sums[Sum::chosen_tokens]);
}

// With objective.logit_metrics.
inline constexpr ObjectiveMetric mean_entropy = {"entropy", mean_over<Sum::entropy, Sum::entropies>, true};
inline constexpr ObjectiveMetric mean_chosen_logits = {
    "logits/chosen", mean_over<Sum::chosen_logits, Sum::chosen_tokens>, true};
inline constexpr ObjectiveMetric mean_rejected_logits = {"logits/rejected", mean_of_rejected_logits, true};

}  // namespace tidepool
