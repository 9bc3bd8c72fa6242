// Random choices of experts, sorted for a range: what kernels of experts need before they can run.
#pragma once

#include <algorithm>
#include <numeric>

#include "kernels/experts/experts.h"
#include "tests/support/kernel_fixture.h"

namespace tidepool::test {

// Pools of 1 to 3 workers that all tests of a program share: making one takes milliseconds.
inline CorePool& shared_pool(u32 workers) {
  static const std::unique_ptr<CorePool> pools[] = {make_pool(1), make_pool(2), make_pool(3)};
  return *pools[workers - 1];
}

struct RouteShape {
  u32 rows = 0, experts = 0, chosen = 0;
  bool even = true;  // false: all rows choose the first experts
};
constexpr RouteShape route_shapes[] = {
    {1, 1, 1}, {5, 7, 1}, {33, 8, 2}, {70, 5, 5}, {41, 16, 3, false}, {300, 6, 2}, {3, 40, 2},
};

// RETURNS: [R, k], each row's experts differ.
inline std::vector<i32> random_choices(const RouteShape& s, u32 seed) {
  std::mt19937 engine(seed);
  std::vector<i32> all(s.experts), choices;
  for (u32 row = 0; row < s.rows; ++row) {
    std::iota(all.begin(), all.end(), 0);
    // The last expert is seldom chosen, so that some have no rows.
    if (s.even) std::shuffle(all.begin(), all.end() - (s.chosen < s.experts ? 1 : 0), engine);
    choices.insert(choices.end(), all.begin(), all.begin() + s.chosen);
  }
  return choices;
}

struct SortedRange {
  ExpertRange range;
  u32 rows_max = 0;
  std::vector<i32> offsets, slots, places;

  SortedRange(const RouteShape& s, const std::vector<i32>& choices, ExpertRange r, CorePool& pool)
      : range(r),
        rows_max(static_cast<u32>(routed_rows_max(s.rows, s.chosen, r.count))),
        offsets(r.count + 1, -9),
        slots(rows_max, -9),
        places(choices.size(), -9) {
    sort_by_expert_cpu({.rows = s.rows,
                        .chosen = s.chosen,
                        .experts = choices.data(),
                        .range = range,
                        .offsets = offsets.data(),
                        .slots = slots.data(),
                        .places = places.data()},
                       pool);
  }
  u32 rows() const { return static_cast<u32>(offsets.back()); }
};

// RETURNS: runs of `size` experts that cover all.
inline std::vector<ExpertRange> ranges_of(u32 experts, u32 size) {
  std::vector<ExpertRange> out;
  for (u32 first = 0; first < experts; first += size) out.push_back({first, std::min(size, experts - first)});
  return out;
}

}  // namespace tidepool::test
