// Mamba-2's norm on the CPU. A task has a group of rows of one key head, whose columns it normalises
// together.
#include <cstring>

#include "base/check.h"
#include "kernels/delta_rule/delta_rows.h"
#include "kernels/delta_rule/delta_rule.h"
#include "kernels/rms_norm/rms_norm_rows.h"
#include "kernels/simd/rows.h"

namespace tidepool {
namespace {

// Arrays of one key head's columns, side by side in a worker's scratch.
struct GroupNormScratch {
  GroupNormScratch(std::byte* at, u32 columns) : weight(reinterpret_cast<float*>(at)), columns_(columns) {
    CHECK(3 * columns * sizeof(float) <= 4 * mib, columns);
  }
  float* weight;

  float* dweight() const { return weight + columns_; }
  float* h() const { return weight + 2 * u64{columns_}; }

 private:
  u32 columns_;
};

// Calls fn(first element in [R, NV DV], first of z, weights, scratch) for each row of each group, and then
// end(group of rows, first column, scratch).
template <class Op, class Fn, class End>
void for_groups(const Op& op, CorePool& pool, Fn fn, End end) {
  const DeltaShape& s = op.shape;
  const u32 columns = s.group_columns(), groups = static_cast<u32>(div_up(s.rows(), u64{delta_group_rows}));
  parallel_for(pool, Priority::normal, groups * s.key_heads, [&](u32 task, u32 worker) {
    const u32 group = task / s.key_heads, first = task % s.key_heads * columns;
    const GroupNormScratch scratch(pool.scratch(worker), columns);
    const float* weight = rows::widened(op.weight.at(first), columns, scratch.weight);
    std::memset(scratch.dweight(), 0, columns * sizeof(float));
    const u32 last = std::min((group + 1) * delta_group_rows, s.rows());
    for (u32 row = group * delta_group_rows; row < last; ++row)
      fn(u64{row} * s.value_columns() + first, u64{row} * s.columns() + s.z(0) + first, weight, scratch);
    end(group, first, scratch);
  });
}

}  // namespace

void group_norm_cpu(const GroupNorm& op, CorePool& pool) {
  const u32 columns = op.shape.group_columns();
  for_groups(
      op, pool,
      [&](u64 at, u64 z, const float* weight, const GroupNormScratch& scratch) {
        delta_rows::silu_gated(op.x.fp32() + at, op.projected.fp32() + z, scratch.h(), columns);
        delta_rows::scaled_by(scratch.h(), rms_of_row(scratch.h(), op.epsilon, columns), weight,
                              op.y.fp32() + at, columns);
      },
      [](u32, u32, const GroupNormScratch&) {});
}

void group_norm_backward_cpu(const GroupNormBackward& op, CorePool& pool) {
  const DeltaShape& s = op.shape;
  const u32 columns = s.group_columns(), all = s.value_columns();
  for_groups(
      op, pool,
      [&](u64 at, u64 z, const float* weight, const GroupNormScratch& scratch) {
        const float *x = op.x.fp32() + at, *gate = op.projected.fp32() + z;
        delta_rows::silu_gated(x, gate, scratch.h(), columns);
        delta_rows::group_norm_backward({.x = x,
                                         .z = gate,
                                         .h = scratch.h(),
                                         .weight = weight,
                                         .dy = op.dy.fp32() + at,
                                         .rstd = rms_of_row(scratch.h(), op.epsilon, columns),
                                         .dx = op.dx.fp32() + at,
                                         .dz = op.dprojected.fp32() + z,
                                         .dweight = scratch.dweight()},
                                        columns);
      },
      [&](u32 group, u32 first, const GroupNormScratch& scratch) {
        if (op.dweight == nullptr) return;
        std::memcpy(op.partials + u64{group} * all + first, scratch.dweight(), columns * sizeof(float));
      });
  if (op.dweight == nullptr) return;
  const u64 groups = div_up(s.rows(), u64{delta_group_rows});
  parallel_for(pool, Priority::normal, s.key_heads, [&](u32 head, u32 worker) {
    const u32 first = head * columns;
    float* total = GroupNormScratch(pool.scratch(worker), columns).dweight();
    std::memset(total, 0, columns * sizeof(float));
    for (u64 group = 0; group < groups; ++group) rows::add(total, op.partials + group * all + first, columns);
    rows::store(op.dweight + first, total, columns, op.accumulate);
  });
}

}  // namespace tidepool
