// Means of sums, as metrics tell them.
#pragma once

#include "objectives/objective.h"

namespace tidepool {

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

}  // namespace tidepool
