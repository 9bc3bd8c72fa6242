#include "kernels/layer_norm/layer_norm.h"

#include <algorithm>
#include <cstring>

#include "kernels/layer_norm/layer_norm_rows.h"
#include "kernels/simd/rows.h"

namespace tidepool {
namespace {

constexpr u32 slice_columns = 256;  // of the sum over groups

u32 groups_of(u32 rows) { return static_cast<u32>(div_up(rows, layer_norm_group_rows)); }

template <class Fn>
void for_rows(u32 group, u32 rows, Fn fn) {
  const u32 end = std::min((group + 1) * layer_norm_group_rows, rows);
  for (u32 row = group * layer_norm_group_rows; row < end; ++row) fn(row);
}

void backward_group(const LayerNormBackward& op, u32 group, float* scratch) {
  const float* weight = rows::widened(op.weight, op.columns, scratch);
  float* dweight = op.partials + u64{group} * 2 * op.columns;
  std::memset(dweight, 0, u64{2} * op.columns * sizeof(float));
  for_rows(group, op.rows, [&](u32 row) {
    const u64 at = u64{row} * op.columns;
    layer_norm_backward_row({.x = op.x.fp32() + at,
                             .weight = weight,
                             .dy = op.dy.fp32() + at,
                             .moments = {op.mean[row], op.rstd[row]},
                             .dx = op.dx.fp32() + at,
                             .add_to_dx = op.add_to_dx,
                             .dweight = dweight,
                             .dbias = dweight + op.columns},
                            op.columns);
  });
}

// Columns [begin, begin + n) of [dweight, dbias] laid end to end, over all groups in order.
void sum_groups(const LayerNormBackward& op, u32 begin, u32 n, float* out, float* total) {
  std::memset(total, 0, n * sizeof(float));
  for (u32 group = 0; group < groups_of(op.rows); ++group) {
    rows::add(total, op.partials + u64{group} * 2 * op.columns + begin, n);
  }
  rows::store(out, total, n, op.accumulate);
}

}  // namespace

void layer_norm_cpu(const LayerNorm& op, CorePool& pool) {
  parallel_for(pool, Priority::normal, groups_of(op.rows), [&](u32 group, u32 worker) {
    auto* scratch = reinterpret_cast<float*>(pool.scratch(worker));
    const float* weight = rows::widened(op.weight, op.columns, scratch);
    const float* bias = rows::widened(op.bias, op.columns, scratch + op.columns);
    for_rows(group, op.rows, [&](u32 row) {
      const u64 at = u64{row} * op.columns;
      const RowMoments m = layer_norm_row(op.x.fp32() + at, weight, bias, op.epsilon, op.y.fp32() + at, op.columns);
      if (op.mean != nullptr) op.mean[row] = m.mean;
      if (op.rstd != nullptr) op.rstd[row] = m.rstd;
    });
  });
}

void layer_norm_backward_cpu(const LayerNormBackward& op, CorePool& pool) {
  parallel_for(pool, Priority::normal, groups_of(op.rows), [&](u32 group, u32 worker) {
    backward_group(op, group, reinterpret_cast<float*>(pool.scratch(worker)));
  });
  const u32 slices = static_cast<u32>(div_up(op.columns, slice_columns));
  parallel_for(pool, Priority::normal, 2 * slices, [&](u32 task, u32 worker) {
    const u32 begin = task / 2 * slice_columns;
    const u32 n = std::min(slice_columns, op.columns - begin);
    float* out = (task % 2 == 0 ? op.dweight : op.dbias) + begin;
    sum_groups(op, task % 2 * op.columns + begin, n, out, reinterpret_cast<float*>(pool.scratch(worker)));
  });
}

}  // namespace tidepool
