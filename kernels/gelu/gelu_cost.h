// gelu_cost() counts the work of GELU and of its gradient.
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

}  // namespace tidepool
