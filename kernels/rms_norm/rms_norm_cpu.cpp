#include <algorithm>
#include <cstring>

#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rms_norm/rms_norm_rows.h"
#include "kernels/simd/rows.h"

namespace tidepool {
namespace {

constexpr u32 slice_columns = 256;  // of the sum over groups

u32 groups_of(u32 rows) { return static_cast<u32>(div_up(rows, rms_norm_group_rows)); }

template <class Fn>
void for_rows(u32 group, u32 rows, Fn fn) {
  const u32 end = std::min((group + 1) * rms_norm_group_rows, rows);
  for (u32 row = group * rms_norm_group_rows; row < end; ++row) fn(row);
}

void backward_group(const RmsNormBackward& op, u32 group, float* scratch) {
  const float* weight = rows::widened(op.weight, op.columns, scratch);
  float* dweight = op.partials + u64{group} * op.columns;
  std::memset(dweight, 0, op.columns * sizeof(float));
  for_rows(group, op.rows, [&](u32 row) {
    const u64 at = u64{row} * op.columns;
    rms_norm_backward_row({.x = op.x.fp32() + at,
                           .weight = weight,
                           .dy = op.dy.fp32() + at,
                           .rstd = op.rstd[row],
                           .dx = op.dx.fp32() + at,
                           .add_to_dx = op.add_to_dx,
                           .dweight = dweight},
                          op.columns);
  });
}

}  // namespace

void rms_norm_cpu(const RmsNorm& op, CorePool& pool) {
  parallel_for(pool, Priority::normal, groups_of(op.rows), [&](u32 group, u32 worker) {
    const float* weight =
        rows::widened(op.weight, op.columns, reinterpret_cast<float*>(pool.scratch(worker)));
    for_rows(group, op.rows, [&](u32 row) {
      const float* x = op.x.fp32() + u64{row} * op.columns;
      const float rstd = rms_of_row(x, op.epsilon, op.columns);
      rms_norm_row(x, rstd, weight, op.y.fp32() + u64{row} * op.columns, op.columns);
      if (op.rstd != nullptr) op.rstd[row] = rstd;
    });
  });
}

void rms_norm_backward_cpu(const RmsNormBackward& op, CorePool& pool) {
  parallel_for(pool, Priority::normal, groups_of(op.rows), [&](u32 group, u32 worker) {
    backward_group(op, group, reinterpret_cast<float*>(pool.scratch(worker)));
  });
  const u32 slices = static_cast<u32>(div_up(op.columns, slice_columns));
  parallel_for(pool, Priority::normal, slices, [&](u32 slice, u32 worker) {
    const u32 begin = slice * slice_columns, n = std::min(slice_columns, op.columns - begin);
    auto* total = reinterpret_cast<float*>(pool.scratch(worker));
    std::memset(total, 0, n * sizeof(float));
    for (u32 group = 0; group < groups_of(op.rows); ++group) {
      rows::add(total, op.partials + u64{group} * op.columns + begin, n);
    }
    rows::store(op.dweight + begin, total, n, op.accumulate);
  });
}

}  // namespace tidepool
