// Costs of output gates: sigmoid_gate_cost() and that of the gradients.
#pragma once

#include "kernels/gate/sigmoid_gate.h"
#include "tidepool/kernel_cost.h"

namespace tidepool {

constexpr u64 gated_elements(const GateShape& s) { return u64{s.rows} * s.columns(); }
constexpr u64 gates_of(const GateShape& s) { return u64{s.rows} * s.heads * s.gate_size; }

// A logistic is about 16 operations. In: x and gates. Out: y.
constexpr KernelCost sigmoid_gate_cost(const GateShape& s) {
  return {.vector_flops = 16 * gates_of(s) + gated_elements(s),
          .elements = 2 * gated_elements(s) + gates_of(s)};
}
// In: x, gates and the output gradient. Out: gradients of x and gates.
constexpr KernelCost sigmoid_gate_backward_cost(const GateShape& s) {
  return {.vector_flops = 18 * gates_of(s) + 3 * gated_elements(s),
          .elements = 3 * gated_elements(s) + 2 * gates_of(s)};
}

}  // namespace tidepool
