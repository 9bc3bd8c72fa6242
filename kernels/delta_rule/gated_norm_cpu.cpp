// The norm of the gated delta rule's output on the CPU, a group of rows per task.
#include <cstring>

#include "base/check.h"
#include "kernels/delta_rule/delta_rows.h"
#include "kernels/delta_rule/delta_rule.h"
#include "kernels/rms_norm/rms_norm_rows.h"
#include "kernels/simd/rows.h"

namespace tidepool {
namespace {

struct GatedNormScratch {
  float weight[delta_head_size_max];
  float dweight[delta_head_size_max];
};

// Calls fn(row, scratch) for each row of each group, and then end(group, scratch).
template <class Op, class Fn, class End>
void for_gated_rows(const Op& op, CorePool& pool, Fn fn, End end) {
  const DeltaShape& s = op.shape;
  CHECK(s.value_size <= delta_head_size_max, s.value_size);
  const u32 groups = static_cast<u32>(div_up(s.rows(), u64{delta_group_rows}));
  parallel_for(pool, Priority::normal, groups, [&](u32 group, u32 worker) {
    auto& scratch = *reinterpret_cast<GatedNormScratch*>(pool.scratch(worker));
    const float* weight = rows::widened(op.weight, s.value_size, scratch.weight);
    std::memset(scratch.dweight, 0, sizeof scratch.dweight);
    const u32 last = std::min((group + 1) * delta_group_rows, s.rows());
    for (u32 row = group * delta_group_rows; row < last; ++row)
      for (u32 head = 0; head < s.value_heads; ++head) fn(row, head, weight, scratch.dweight);
    end(group, scratch.dweight);
  });
}

}  // namespace

void gated_norm_cpu(const GatedNorm& op, CorePool& pool) {
  const DeltaShape& s = op.shape;
  for_gated_rows(
      op, pool,
      [&](u32 row, u32 head, const float* weight, float*) {
        const u64 at = u64{row} * s.value_columns() + u64{head} * s.value_size;
        const float* x = op.x.fp32() + at;
        delta_rows::gated_norm(x, rms_of_row(x, op.epsilon, s.value_size), weight,
                               op.projected.fp32() + u64{row} * s.columns() + s.z(head), op.y.fp32() + at,
                               s.value_size);
      },
      [](u32, const float*) {});
}

void gated_norm_backward_cpu(const GatedNormBackward& op, CorePool& pool) {
  const DeltaShape& s = op.shape;
  for_gated_rows(
      op, pool,
      [&](u32 row, u32 head, const float* weight, float* dweight) {
        const u64 at = u64{row} * s.value_columns() + u64{head} * s.value_size,
                  z = u64{row} * s.columns() + s.z(head);
        const float* x = op.x.fp32() + at;
        delta_rows::gated_norm_backward({.x = x,
                                         .weight = weight,
                                         .z = op.projected.fp32() + z,
                                         .dy = op.dy.fp32() + at,
                                         .rstd = rms_of_row(x, op.epsilon, s.value_size),
                                         .dx = op.dx.fp32() + at,
                                         .dz = op.dprojected.fp32() + z,
                                         .dweight = dweight},
                                        s.value_size);
      },
      [&](u32 group, const float* dweight) {
        if (op.dweight == nullptr) return;
        std::memcpy(op.partials + u64{group} * s.value_size, dweight, s.value_size * sizeof(float));
      });
  if (op.dweight == nullptr) return;
  float total[delta_head_size_max] = {};
  const u64 groups = div_up(s.rows(), u64{delta_group_rows});
  for (u64 group = 0; group < groups; ++group)
    rows::add(total, op.partials + group * s.value_size, s.value_size);
  rows::store(op.dweight, total, s.value_size, op.accumulate);
}

}  // namespace tidepool
