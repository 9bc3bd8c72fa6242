// Grouped products on the CPU: tasks are (expert, tile), found from the offsets.
#include "kernels/experts/grouped_matmul.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/experts/expert_places.h"
#include "kernels/experts/expert_rows.h"
#include "kernels/experts/grouped_tiling.h"
#include "kernels/matmul/matmul_tile.h"
#include "kernels/simd/rows.h"

namespace tidepool {
namespace {

Matmul product_of(const GroupedMatmul& op, const ExpertRows& r) {
  const u64 offset = r.expert * op.expert_stride;
  return {.m = r.count,
          .n = op.n,
          .k = op.k,
          .x = op.x.at(u64{r.begin} * op.row_of_x()),
          .x_stride = op.x_stride,
          .weight = op.weight.at(offset),
          .transposed = op.transposed,
          .bias = op.bias.at(offset),
          .scale = op.scale,
          .accumulate = op.accumulate,
          .y = op.y.at(u64{r.begin} * op.row_of_y()),
          .y_stride = op.y_stride};
}

WeightGradient gradient_of(const GroupedWeightGradient& op, const ExpertRows& r) {
  return {.m = r.count,
          .n = op.n,
          .k = op.k,
          .x = op.x.at(u64{r.begin} * op.k),
          .dy = op.dy.at(u64{r.begin} * op.row_of_dy()),
          .dy_stride = op.dy_stride,
          .dw = op.dw + r.expert * op.expert_stride,
          .accumulate = op.accumulate,
          .transposed = op.transposed};
}

// Sums of columns [begin, begin + n) of the expert's dy. Groups of 64 rows are summed separately first, as in
// rows::column_sums().
void weighted_column_sums(const GroupedWeightGradient& op, const ExpertRows& r, u32 begin, u32 n,
                          TileScratch& s) {
  constexpr u32 group_rows = 64;
  const float* dy = op.dy.fp32() + begin;
  std::fill_n(s.row, n, 0.0f);
  for (u32 group = 0; group < r.count; group += group_rows) {
    const u32 end = std::min(group + group_rows, r.count);
    std::fill_n(s.partial, n, 0.0f);
    for (u32 row = r.begin + group; row < r.begin + end; ++row) {
      const float factor = op.bias_factors != nullptr ? op.bias_factors[op.slots[row]] : 1.0f;
      add_scaled_row(s.partial, dy + u64{row} * op.n, factor, n);
    }
    rows::add(s.row, s.partial, n);
  }
}

void bias_tile(const GroupedWeightGradient& op, const ExpertRows& r, u32 begin, u32 n, TileScratch& s) {
  weighted_column_sums(op, r, begin, n, s);
  rows::store(op.dbias + r.expert * op.expert_stride + begin, s.row, n, op.accumulate);
}

void clear_tile(const GroupedWeightGradient& op, const ExpertRows& r, const Tile& t) {
  const u64 columns = op.transposed ? op.k : op.n;
  float* dw = op.dw + r.expert * op.expert_stride + t.row * columns + t.col;
  for (u32 row = 0; row < t.rows; ++row) std::fill_n(dw + row * columns, t.cols, 0.0f);
}

void gradient_tile(const GroupedWeightGradient& op, const ExpertRows& r, const Tile& t, TileScratch& s) {
  if (r.count != 0) {
    weight_gradient_tile(gradient_of(op, r), t, s);
  } else {
    clear_tile(op, r, t);
  }
  if (op.dbias == nullptr) return;
  // The first tile of a strip of dy's columns has just brought them into the cache.
  if (!op.transposed && t.row == 0) bias_tile(op, r, t.col, t.cols, s);
  if (op.transposed && t.col == 0) bias_tile(op, r, t.row, t.rows, s);
}

}  // namespace

void grouped_matmul_cpu(const GroupedMatmul& op, CorePool& pool) {
  CHECK(op.n > 0 && op.k > 0, op.n, op.k);
  CHECK(static_cast<u32>(op.offsets[op.experts]) <= op.rows_max, op.offsets[op.experts], op.rows_max);
  CHECK(!op.accumulate || !op.bias);
  const auto tasks = [&](const ExpertRows& r) { return grouped_tiling(r.count, op.n).count(); };
  parallel_for(pool, Priority::normal, expert_task_count(op.offsets, op.experts, tasks),
               [&](u32 index, u32 worker) {
                 auto& scratch = *reinterpret_cast<TileScratch*>(pool.scratch(worker));
                 with_expert_task(op.offsets, index, tasks, [&](const ExpertRows& r, u32 task) {
                   matmul_tile(product_of(op, r), grouped_tiling(r.count, op.n).tile(task), scratch);
                 });
               });
}

void grouped_weight_gradient_cpu(const GroupedWeightGradient& op, CorePool& pool) {
  CHECK(op.n > 0 && op.k > 0, op.n, op.k);
  CHECK(static_cast<u32>(op.offsets[op.experts]) <= op.rows_max, op.offsets[op.experts], op.rows_max);
  CHECK(op.bias_factors == nullptr || op.slots != nullptr);
  CHECK(op.dbias == nullptr || op.dy_stride == 0, op.dy_stride);
  const Tiling tiling =
      op.transposed ? grouped_gradient_tiling(op.n, op.k) : grouped_gradient_tiling(op.k, op.n);
  const auto tasks = [&](const ExpertRows& r) {
    return r.count == 0 && op.accumulate ? 0 : tiling.count();  // adding nothing
  };
  parallel_for(pool, Priority::normal, expert_task_count(op.offsets, op.experts, tasks),
               [&](u32 index, u32 worker) {
                 auto& scratch = *reinterpret_cast<TileScratch*>(pool.scratch(worker));
                 with_expert_task(op.offsets, index, tasks, [&](const ExpertRows& r, u32 task) {
                   gradient_tile(op, r, tiling.tile(task), scratch);
                 });
               });
}

}  // namespace tidepool
