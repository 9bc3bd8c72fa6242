#include "kernels/glu/glu.h"

#include <algorithm>

#include "kernels/glu/glu_rows.h"

namespace tidepool {
namespace {

constexpr u32 task_rows = 16;

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
  for_rows(op.rows, pool, [&](u32 row) {
    const float* gate = op.gate_up.fp32() + u64{row} * 2 * op.columns;
    glu_row(op.gate, gate, gate + op.columns, op.y.fp32() + u64{row} * op.columns, op.columns);
  });
}

void glu_backward_cpu(const GluBackward& op, CorePool& pool) {
  for_rows(op.rows, pool, [&](u32 row) {
    const u64 at = u64{row} * op.columns;
    const float* gate = op.gate_up.fp32() + 2 * at;
    float* dgate = op.dgate_up.fp32() + 2 * at;
    glu_backward_row(op.gate,
                     {.gate = gate,
                      .up = gate + op.columns,
                      .dy = op.dy.fp32() + at,
                      .dgate = dgate,
                      .dup = dgate + op.columns,
                      .value = op.value ? op.value.fp32() + at : nullptr},
                     op.columns);
  });
}

}  // namespace tidepool
