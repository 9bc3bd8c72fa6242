// router_cost() counts the work of choosing experts, and of the gradient of that choice.
#pragma once

#include "tidepool/kernel_cost.h"

namespace tidepool {

// Logits are fp32. Softmax, entropy and sums take about 20 operations per logit, a choice one comparison per
// logit and expert chosen.
constexpr KernelCost router_cost(u64 rows, u64 experts, u64 chosen) {
  return {.vector_flops = (20 + chosen) * rows * experts, .bytes = 4 * rows * experts + 8 * rows * chosen};
}
// Reads logits, writes their gradient.
constexpr KernelCost router_backward_cost(u64 rows, u64 experts, u64 chosen) {
  return {.vector_flops = 24 * rows * experts, .bytes = 8 * rows * experts + 8 * rows * chosen};
}

}  // namespace tidepool
