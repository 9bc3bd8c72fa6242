// Shared code of layer norm and RMS norm: gradients of their weights are sums over all rows. Each group of
// rows makes partial sums, and the groups are then summed in order.
#pragma once

#include <algorithm>
#include <span>

#include "base/types.h"
#include "tidepool/core_pool.h"

namespace tidepool {

inline constexpr u32 norm_group_rows = 64;
constexpr u32 norm_groups(u64 rows) { return static_cast<u32>(div_up(rows, norm_group_rows)); }

// Calls fn(row) for each row of the group, ascending.
template <class Fn>
void for_rows_of_norm_group(u32 group, u32 rows, Fn fn) {
  const u32 end = std::min((group + 1) * norm_group_rows, rows);
  for (u32 row = group * norm_group_rows; row < end; ++row) fn(row);
}

// sums[k][c] = (accumulate: itself +) sum over groups of partials[group][k][c].
// partials: [norm_groups(rows), sums.size(), columns].
void sum_norm_groups_cpu(const float* partials, u32 rows, std::span<float* const> sums, u32 columns,
                         bool accumulate, CorePool&);

}  // namespace tidepool
