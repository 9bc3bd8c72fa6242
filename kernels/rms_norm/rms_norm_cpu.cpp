#include "kernels/rms_norm/rms_norm.h"

#include <cstring>

#include "kernels/norm/norm_groups.h"
#include "kernels/rms_norm/rms_norm_rows.h"
#include "kernels/simd/rows.h"

namespace tidepool {
namespace {

void backward_group(const RmsNormBackward& op, u32 group, float* scratch) {
  const float* weight = rows::widened_sum(op.weight, op.weight_offset, op.columns, scratch);
  float* dweight = op.partials + u64{group} * op.columns;
  std::memset(dweight, 0, op.columns * sizeof(float));
  for_rows_of_norm_group(group, op.rows, [&](u32 row) {
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
  parallel_for(pool, Priority::normal, norm_groups(op.rows), [&](u32 group, u32 worker) {
    const float* weight = rows::widened_sum(op.weight, op.weight_offset, op.columns,
                                            reinterpret_cast<float*>(pool.scratch(worker)));
    for_rows_of_norm_group(group, op.rows, [&](u32 row) {
      const u64 at = u64{row} * op.columns;
      const float* x = op.x.fp32() + at;
      const float rstd = rms_of_row(x, op.epsilon, op.columns);
      const float* residual = op.residual ? op.residual.fp32() + at : nullptr;
      rms_norm_row(x, rstd, weight, residual, op.y.fp32() + at, op.columns);
      if (op.rstd != nullptr) op.rstd[row] = rstd;
    });
  });
}

void rms_norm_backward_cpu(const RmsNormBackward& op, CorePool& pool) {
  parallel_for(pool, Priority::normal, norm_groups(op.rows), [&](u32 group, u32 worker) {
    backward_group(op, group, reinterpret_cast<float*>(pool.scratch(worker)));
  });
  if (op.dweight == nullptr) return;
  float* const sums[] = {op.dweight};
  sum_norm_groups_cpu(op.partials, op.rows, sums, op.columns, op.accumulate, pool);
}

}  // namespace tidepool
