// cross_entropy_cost() counts the work of the loss and of its gradient.
#pragma once

#include "kernels/soft_cap/soft_cap_cost.h"
#include "tidepool/kernel_cost.h"

namespace tidepool {

// One pass over the logits, with an exponential per element, and a tanh if logits have a cap. Sums of logits
// take two exponentials more.
constexpr KernelCost cross_entropy_cost(u64 rows, u64 vocabulary, bool capped = false,
                                        bool sums_logits = false) {
  return {.vector_flops = (12 + (capped ? tanh_flops : 0) + (sums_logits ? 27 : 0)) * rows * vocabulary,
          .elements = rows * vocabulary};
}
constexpr KernelCost cross_entropy_gradient_cost(u64 rows, u64 vocabulary, bool capped = false) {
  return {.vector_flops = (12 + (capped ? tanh_flops : 0)) * rows * vocabulary,
          .elements = 2 * rows * vocabulary};
}

}  // namespace tidepool
