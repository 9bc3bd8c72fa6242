#include "kernels/glu/glu.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/glu/glu_rows.h"

namespace tidepool {
namespace {

constexpr u32 task_rows = 16;

template <class Op>
u32 true_rows(const Op& op) {
  if (op.row_count == nullptr) return op.rows;
  const u32 rows = static_cast<u32>(*op.row_count);
  CHECK(rows <= op.rows, rows, op.rows);
  return rows;
}

template <class Fn>
void for_rows(u32 rows, CorePool& pool, Fn fn) {
  const u32 tasks = static_cast<u32>(div_up(rows, task_rows));
  parallel_for(pool, Priority::normal, tasks, [&](u32 task, u32) {
    const u32 end = std::min((task + 1) * task_rows, rows);
    for (u32 row = task * task_rows; row < end; ++row) fn(row);
  });
}

}  // namespace

void glu_cpu(const Glu& op, CorePool& pool) {
  for_rows(true_rows(op), pool, [&](u32 row) {
    const u64 at = u64{row} * op.columns;
    glu_row({op.gate, op.interleaved, op.clamp}, op.gate_up.fp32() + glu_inputs(op.gate) * at,
            op.y.fp32() + at, op.columns);
  });
}

void glu_backward_cpu(const GluBackward& op, CorePool& pool) {
  CHECK((op.weights != nullptr) == (op.slots != nullptr));
  CHECK(op.dweights == nullptr || op.weights != nullptr);
  for_rows(true_rows(op), pool, [&](u32 row) {
    const u64 at = u64{row} * op.columns;
    const i32 slot = op.slots != nullptr ? op.slots[row] : 0;
    const float dweight = glu_backward_row({op.gate, op.interleaved, op.clamp},
                                           {.gate_up = op.gate_up.fp32() + glu_inputs(op.gate) * at,
                                            .dy = op.dy.fp32() + at,
                                            .dgate_up = op.dgate_up.fp32() + glu_inputs(op.gate) * at,
                                            .value = op.value ? op.value.fp32() + at : nullptr,
                                            .weight = op.weights != nullptr ? op.weights[slot] : 1.0f},
                                           op.columns);
    if (op.dweights != nullptr) op.dweights[slot] = dweight;
  });
}

}  // namespace tidepool
