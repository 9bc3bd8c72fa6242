// Output gates on the CPU, a group of rows per task.
#include "kernels/gate/sigmoid_gate.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/gate/sigmoid_gate_rows.h"

namespace tidepool {
namespace {

void check_gates(const GateShape& s) {
  CHECK(s.gate_size == s.head_size || s.gate_size == 1, s.gate_size, s.head_size);
  CHECK(s.heads <= 1 || s.head_stride >= s.gate_size, s.head_stride, s.gate_size);
  CHECK(s.rows <= 1 || s.row_stride >= s.gate_size, s.row_stride, s.gate_size);
}

// Calls fn(first element of a head in x, first element of its gates) for each head of each row.
template <class Fn>
void for_gated_heads(const GateShape& s, CorePool& pool, Fn fn) {
  const u32 groups = static_cast<u32>(div_up(s.rows, gate_group_rows));
  parallel_for(pool, Priority::normal, groups, [&](u32 group, u32) {
    const u32 end = std::min((group + 1) * gate_group_rows, s.rows);
    for (u32 row = group * gate_group_rows; row < end; ++row) {
      for (u32 head = 0; head < s.heads; ++head)
        fn(u64{row} * s.columns() + u64{head} * s.head_size, s.gate_at(row, head));
    }
  });
}

// `op`: SigmoidGate or SigmoidGateBackward.
template <class Op>
GateHead head_of(const Op& op, u64 at, u64 gates_at) {
  return {.x = op.x.fp32() + at,
          .gates = op.gates.fp32() + gates_at,
          .whole_head = op.shape.gate_size != op.shape.head_size};
}

}  // namespace

void sigmoid_gate_cpu(const SigmoidGate& op, CorePool& pool) {
  check_gates(op.shape);
  for_gated_heads(op.shape, pool, [&](u64 at, u64 gates_at) {
    sigmoid_gate_head(head_of(op, at, gates_at), op.y.fp32() + at, op.shape.head_size);
  });
}

void sigmoid_gate_backward_cpu(const SigmoidGateBackward& op, CorePool& pool) {
  check_gates(op.shape);
  for_gated_heads(op.shape, pool, [&](u64 at, u64 gates_at) {
    sigmoid_gate_backward_head({.head = head_of(op, at, gates_at),
                                .dy = op.dy.fp32() + at,
                                .dx = op.dx.fp32() + at,
                                .dgates = op.dgates.fp32() + gates_at},
                               op.shape.head_size);
  });
}

}  // namespace tidepool
