// Costs of activations and of their gradients.
#pragma once

#include "tidepool/kernel_cost.h"

namespace tidepool {

// About 20 operations per element. The CPU fuses GELU into a product; predictions for other devices count a
// separate pass: one input, one output.
constexpr KernelCost gelu_cost(u64 elements) {
  return {.vector_flops = 20 * elements, .elements = 2 * elements};
}
// In: the value before GELU and the output gradient. Out: GELU's output, recomputed, and the input gradient.
constexpr KernelCost gelu_backward_cost(u64 elements) {
  return {.vector_flops = 20 * elements, .elements = 4 * elements};
}

// A comparison and a square per element; backward also doubles, and multiplies by the output gradient.
constexpr KernelCost squared_relu_cost(u64 elements) {
  return {.vector_flops = 2 * elements, .elements = 2 * elements};
}
constexpr KernelCost squared_relu_backward_cost(u64 elements) {
  return {.vector_flops = 4 * elements, .elements = 4 * elements};
}

}  // namespace tidepool
