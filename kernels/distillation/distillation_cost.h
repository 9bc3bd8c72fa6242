// Costs of distillation's passes beside those of the cross-entropy.
#pragma once

#include "tidepool/kernel_cost.h"

namespace tidepool {

// The logits of k tokens of each row are picked, or their gradients added.
constexpr KernelCost teacher_tokens_cost(u64 rows, u64 k) {
  return {.vector_flops = 4 * rows * k, .elements = 2 * rows * k, .bytes = 8 * rows * k};
}
// Two logarithms and three exponentials for each of k tokens.
constexpr KernelCost divergence_cost(u64 rows, u64 k) {
  return {.vector_flops = 60 * rows * k, .bytes = 16 * rows * k};
}
// One pass over the logits. A GPU makes one for each token that comes into the list, most of them in the
// first slices, which this leaves out.
constexpr KernelCost select_top_cost(u64 rows, u64 vocabulary) {
  return {.vector_flops = 4 * rows * vocabulary, .elements = rows * vocabulary};
}

}  // namespace tidepool
