// glu_cost() counts the work of a gated linear unit (SwiGLU, GeGLU) and of its gradient.
#pragma once

#include "kernels/glu/glu.h"
#include "tidepool/kernel_cost.h"

namespace tidepool {

// `elements`: elements of y, rows times columns. In: gate and up. Out: y.
constexpr KernelCost glu_cost(u64 elements, GluGate gate) {
  if (gate == GluGate::squared_relu) return {.vector_flops = 2 * elements, .elements = 2 * elements};
  const u64 flops = gate == GluGate::silu ? 18 : gate == GluGate::gelu ? 23 : 22;
  return {.vector_flops = flops * elements, .elements = 3 * elements};
}
// In: gate, up and the output gradient. Out: gradients of gate and up, and y, recomputed.
constexpr KernelCost glu_backward_cost(u64 elements, GluGate gate) {
  if (gate == GluGate::squared_relu) return {.vector_flops = 6 * elements, .elements = 4 * elements};
  const u64 flops = gate == GluGate::silu ? 24 : gate == GluGate::gelu ? 34 : 30;
  return {.vector_flops = flops * elements, .elements = 6 * elements};
}

}  // namespace tidepool
