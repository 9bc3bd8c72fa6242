// cross_entropy_cost() counts the work of the loss and of its gradient.
#pragma once

#include "tidepool/kernel_cost.h"

namespace tidepool {

// One pass over the logits, with an exponential per element.
constexpr KernelCost cross_entropy_cost(u64 rows, u64 vocabulary) {
  return {.vector_flops = 12 * rows * vocabulary, .elements = rows * vocabulary};
}
constexpr KernelCost cross_entropy_gradient_cost(u64 rows, u64 vocabulary) {
  return {.vector_flops = 12 * rows * vocabulary, .elements = 2 * rows * vocabulary};
}

}  // namespace tidepool
