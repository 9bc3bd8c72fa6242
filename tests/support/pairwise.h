// Covering arrays: few settings that together contain every pair of values of any two factors.
#pragma once

#include <cstddef>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "base/types.h"

namespace tidepool::test {

using Row = std::vector<u32>;  // one value per factor
struct Pair {
  u32 factor_a = 0, value_a = 0, factor_b = 0, value_b = 0;  // factor_a < factor_b
  auto operator<=>(const Pair&) const = default;
};

inline std::set<Pair> all_pairs(const std::vector<u32>& levels) {
  std::set<Pair> pairs;
  for (u32 a = 0; a < levels.size(); ++a)
    for (u32 b = a + 1; b < levels.size(); ++b)
      for (u32 x = 0; x < levels[a]; ++x)
        for (u32 y = 0; y < levels[b]; ++y) pairs.insert({a, x, b, y});
  return pairs;
}

inline std::set<Pair> pairs_of(const Row& row) {
  std::set<Pair> pairs;
  for (u32 a = 0; a < row.size(); ++a)
    for (u32 b = a + 1; b < row.size(); ++b) pairs.insert({a, row[a], b, row[b]});
  return pairs;
}

// Greedy: each row starts from a missing pair, then takes the values that cover the most other pairs.
inline std::vector<Row> covering_array(const std::vector<u32>& levels) {
  std::set<Pair> missing = all_pairs(levels);
  std::vector<Row> rows;
  while (!missing.empty()) {
    const Pair seed = *missing.begin();
    Row row(levels.size(), none);
    row[seed.factor_a] = seed.value_a;
    row[seed.factor_b] = seed.value_b;
    for (u32 f = 0; f < levels.size(); ++f) {
      if (row[f] != none) continue;
      u32 best = 0, best_gain = 0;
      for (u32 i = 0; i < levels[f]; ++i) {
        const u32 value = (i + static_cast<u32>(rows.size())) % levels[f];  // ties: values take turns
        u32 gain = 1;
        for (u32 g = 0; g < levels.size(); ++g) {
          if (g == f || row[g] == none) continue;
          gain += static_cast<u32>(
              missing.contains(g < f ? Pair{g, row[g], f, value} : Pair{f, value, g, row[g]}));
        }
        if (gain > best_gain) std::tie(best, best_gain) = std::tuple(value, gain);
      }
      row[f] = best;
    }
    for (const Pair& pair : pairs_of(row)) missing.erase(pair);
    rows.push_back(std::move(row));
  }
  return rows;
}

// RETURNS: some of `rows` that hold every value together. Greedy: the `first`-th, then always the one with
// the most values that none before holds.
inline std::vector<Row> rows_with_each_value(const std::vector<Row>& rows, u64 first) {
  std::set<std::pair<u64, u32>> seen;  // factor, value
  const auto news = [&](const Row& row) {
    u64 count = 0;
    for (u64 factor = 0; factor < row.size(); ++factor) count += seen.contains({factor, row[factor]}) ? 0 : 1;
    return count;
  };
  std::vector<Row> out;
  for (const Row* next = &rows[first % rows.size()]; news(*next) > 0;) {
    for (u64 factor = 0; factor < next->size(); ++factor) seen.emplace(factor, (*next)[factor]);
    out.push_back(*next);
    for (u64 i = 0; i < rows.size(); ++i) {
      const Row& row = rows[(first + i) % rows.size()];
      if (news(row) > news(*next)) next = &row;
    }
  }
  return out;
}

}  // namespace tidepool::test
