#pragma once

#include "tidepool/kernel_cost.h"

namespace tidepool {

// Ten Philox rounds make four elements' bits: about 20 integer operations each.
constexpr u64 dropout_flops(u64 elements) { return 20 * elements; }

// A pass of its own.
constexpr KernelCost dropout_cost(u64 elements) {
  return {.vector_flops = dropout_flops(elements), .elements = 2 * elements};
}

}  // namespace tidepool
