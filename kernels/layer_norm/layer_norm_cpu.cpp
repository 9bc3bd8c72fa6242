#include "kernels/layer_norm/layer_norm.h"

#include <cstring>

#include "kernels/layer_norm/layer_norm_rows.h"
#include "kernels/norm/norm_groups.h"
#include "kernels/simd/rows.h"

namespace tidepool {
namespace {

void backward_group(const LayerNormBackward& op, u32 group, float* scratch) {
  const float* weight = rows::widened(op.weight, op.columns, scratch);
  float* dweight = op.partials + u64{group} * 2 * op.columns;
  std::memset(dweight, 0, u64{2} * op.columns * sizeof(float));
  for_rows_of_norm_group(group, op.rows, [&](u32 row) {
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

}  // namespace

void layer_norm_cpu(const LayerNorm& op, CorePool& pool) {
  parallel_for(pool, Priority::normal, norm_groups(op.rows), [&](u32 group, u32 worker) {
    auto* scratch = reinterpret_cast<float*>(pool.scratch(worker));
    const float* weight = rows::widened(op.weight, op.columns, scratch);
    const float* bias = rows::widened(op.bias, op.columns, scratch + op.columns);
    for_rows_of_norm_group(group, op.rows, [&](u32 row) {
      const u64 at = u64{row} * op.columns;
      const RowMoments m =
          layer_norm_row(op.x.fp32() + at, weight, bias, op.epsilon, op.y.fp32() + at, op.columns);
      if (op.mean != nullptr) op.mean[row] = m.mean;
      if (op.rstd != nullptr) op.rstd[row] = m.rstd;
    });
  });
}

void layer_norm_backward_cpu(const LayerNormBackward& op, CorePool& pool) {
  parallel_for(pool, Priority::normal, norm_groups(op.rows), [&](u32 group, u32 worker) {
    backward_group(op, group, reinterpret_cast<float*>(pool.scratch(worker)));
  });
  if (op.dweight == nullptr) return;
  float* const sums[] = {op.dweight, op.dbias};
  sum_norm_groups_cpu(op.partials, op.rows, sums, op.columns, op.accumulate, pool);
}

}  // namespace tidepool
