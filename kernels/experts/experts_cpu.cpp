// Passes that bring tokens to experts and back.
#include "kernels/experts/experts.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/attention/softmax_rows.h"
#include "kernels/experts/expert_places.h"
#include "kernels/experts/expert_rows.h"
#include "kernels/simd/rows.h"

namespace tidepool {
namespace {

constexpr u32 expert_task_rows = 32;
constexpr u32 combine_columns = 4096;  // of a sum that a worker keeps in its first-level cache
constexpr u32 combine_chosen_max = 4096;

struct CombineScratch {
  u32 order[combine_chosen_max];
  float sum[combine_columns];
};

template <class Fn>
void for_expert_rows(u32 rows, CorePool& pool, Fn fn) {
  const u32 tasks = static_cast<u32>(div_up(rows, expert_task_rows));
  parallel_for(pool, Priority::normal, tasks, [&](u32 task, u32 worker) {
    const u32 end = std::min((task + 1) * expert_task_rows, rows);
    for (u32 row = task * expert_task_rows; row < end; ++row) fn(row, pool.scratch(worker));
  });
}

// Writes the token's choices that have a place, in order of experts. RETURNS: their number.
u32 order_choices(const CombineExperts& op, u32 row, u32* order) {
  const i32* places = op.places + u64{row} * op.chosen;
  const i32* experts = op.experts + u64{row} * op.chosen;
  u32 count = 0;
  for (u32 j = 0; j < op.chosen; ++j) {
    if (places[j] < 0) continue;
    const auto later = [&](u32 other) {
      return op.descending ? experts[other] < experts[j] : experts[other] > experts[j];
    };
    u32 at = count++;
    for (; at > 0 && later(order[at - 1]); --at) order[at] = order[at - 1];
    order[at] = j;
  }
  return count;
}

void combine_row(const CombineExperts& op, u32 row, CombineScratch& s) {
  const u32 count = order_choices(op, row, s.order);
  const float *x = op.x.fp32(), *residual = op.residual.fp32();
  for (u32 begin = 0; begin < op.columns; begin += combine_columns) {
    const u32 n = std::min(combine_columns, op.columns - begin);
    const u64 at = u64{row} * op.columns + begin;
    if (op.sum_in != nullptr) {
      std::memcpy(s.sum, op.sum_in + at, n * sizeof(float));
    } else {
      std::fill_n(s.sum, n, 0.0f);
    }
    for (u32 i = 0; i < count; ++i) {
      const u64 slot = u64{row} * op.chosen + s.order[i];
      const float weight = op.weights != nullptr ? op.weights[slot] : 1.0f;
      add_scaled_row(s.sum, x + static_cast<u64>(op.places[slot]) * op.columns + begin, weight, n);
    }
    if (op.sum_out != nullptr) std::memcpy(op.sum_out + at, s.sum, n * sizeof(float));
    if (!op.y) continue;
    float* y = op.y.fp32() + at;
    if (residual != nullptr) {
      rows::sum(residual + at, s.sum, y, n);
    } else {
      std::memcpy(y, s.sum, n * sizeof(float));
    }
  }
}

}  // namespace

void gather_rows_cpu(const GatherRows& op, CorePool& pool) {
  const u32 rows = static_cast<u32>(*op.row_count);
  CHECK(rows <= op.rows_max, rows, op.rows_max);
  const float* x = op.x.fp32();
  float* y = op.y.fp32();
  for_expert_rows(rows, pool, [&](u32 row, std::byte*) {
    const u64 token = static_cast<u32>(op.slots[row]) / op.chosen;
    std::memcpy(y + u64{row} * op.columns, x + token * op.columns, op.columns * sizeof(float));
  });
}

void combine_experts_cpu(const CombineExperts& op, CorePool& pool) {
  CHECK(op.chosen <= combine_chosen_max, op.chosen);
  CHECK(pool.scratch_bytes().value >= sizeof(CombineScratch), pool.scratch_bytes().value);
  for_expert_rows(op.rows, pool, [&](u32 row, std::byte* scratch) {
    combine_row(op, row, *reinterpret_cast<CombineScratch*>(scratch));
  });
}

void route_bias_gradient_cpu(const RouteBiasGradient& op, CorePool& pool) {
  const u32 rows = static_cast<u32>(op.offsets[op.range_count]);
  CHECK(rows <= op.rows_max, rows, op.rows_max);
  CHECK(pool.scratch_bytes().value >= u64{op.columns} * sizeof(float), op.columns);
  const float* dy = op.dy.fp32();
  const auto tasks = [](const ExpertRows& r) { return static_cast<u32>(div_up(r.count, expert_task_rows)); };
  parallel_for(pool, Priority::normal, expert_task_count(op.offsets, op.range_count, tasks),
               [&](u32 index, u32 worker) {
                 with_expert_task(op.offsets, index, tasks, [&](const ExpertRows& r, u32 task) {
                   const float* bias = rows::widened(op.bias.at(r.expert * op.expert_stride), op.columns,
                                                     reinterpret_cast<float*>(pool.scratch(worker)));
                   const u32 end = std::min((task + 1) * expert_task_rows, r.count);
                   for (u32 row = r.begin + task * expert_task_rows; row < r.begin + end; ++row) {
                     op.dweights[op.slots[row]] += dot_row(dy + u64{row} * op.columns, bias, op.columns);
                   }
                 });
               });
}

}  // namespace tidepool
