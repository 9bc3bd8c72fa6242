#pragma once

#include "kernels/cost.h"

namespace tidepool {

// One pass over logits, with an exponential each.
constexpr Cost cross_entropy_cost(u64 rows, u64 vocabulary) {
  return {.flops = 12 * rows * vocabulary, .bytes = 4 * rows * vocabulary};
}
constexpr Cost cross_entropy_gradient_cost(u64 rows, u64 vocabulary) {
  return {.flops = 12 * rows * vocabulary, .bytes = 8 * rows * vocabulary};
}

}  // namespace tidepool
