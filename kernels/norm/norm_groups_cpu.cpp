#include "kernels/norm/norm_groups.h"

#include <cstring>

#include "kernels/simd/rows.h"

namespace tidepool {

void sum_norm_groups_cpu(const float* partials, u32 rows, std::span<float* const> sums, u32 columns,
                         bool accumulate, CorePool& pool) {
  constexpr u32 slice_columns = 256;
  const u32 kinds = static_cast<u32>(sums.size());
  const u32 slices = static_cast<u32>(div_up(columns, slice_columns));
  parallel_for(pool, Priority::normal, kinds * slices, [&](u32 task, u32 worker) {
    const u32 kind = task % kinds, begin = task / kinds * slice_columns;
    const u32 n = std::min(slice_columns, columns - begin);
    auto* total = reinterpret_cast<float*>(pool.scratch(worker));
    std::memset(total, 0, n * sizeof(float));
    for (u32 group = 0; group < norm_groups(rows); ++group)
      rows::add(total, partials + (u64{group} * kinds + kind) * columns + begin, n);
    rows::store(sums[kind] + begin, total, n, accumulate);
  });
}

}  // namespace tidepool
