#pragma once

#include "tidepool/kernel_cost.h"

namespace tidepool {

// About 20 operations per element. The CPU fuses it into a product; predictions for other devices count a
// pass of its own: one in, one out.
constexpr KernelCost gelu_cost(u64 elements) {
  return {.vector_flops = 20 * elements, .elements = 2 * elements};
}
// In: the value before GELU and the gradient behind it. Out: GELU's output again and the gradient before it.
constexpr KernelCost gelu_backward_cost(u64 elements) {
  return {.vector_flops = 20 * elements, .elements = 4 * elements};
}

}  // namespace tidepool
