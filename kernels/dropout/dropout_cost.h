// dropout_cost() counts the work of dropout, fused or as a separate pass.
#pragma once

#include "tidepool/kernel_cost.h"

namespace tidepool {

// Ten Philox rounds yield the bits of four elements: about 20 integer operations per element.
constexpr u64 dropout_flops(u64 elements) { return 20 * elements; }

// Dropout as a separate pass.
constexpr KernelCost dropout_cost(u64 elements) {
  return {.vector_flops = dropout_flops(elements), .elements = 2 * elements};
}

}  // namespace tidepool
