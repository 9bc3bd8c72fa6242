// What the compute benchmarks share.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

namespace tidepool {

template <class Fn>
double seconds_of(Fn&& fn) {
  const auto begin = std::chrono::steady_clock::now();
  fn();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// REQUIRES: not empty.
inline double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  const auto n = values.size();
  return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

}  // namespace tidepool
