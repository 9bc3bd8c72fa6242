// median() summarises repeated measurements without the effect of outliers.
#pragma once

#include <algorithm>
#include <vector>

namespace tidepool {

// Median. Even count: the mean of the middle two. No values: 0.
inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const auto n = values.size();
  return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

}  // namespace tidepool
