// Cost of a multiplication by a parameter.
#pragma once

#include "tidepool/kernel_cost.h"

namespace tidepool {

constexpr KernelCost scale_values_cost(u64 elements) {
  return {.vector_flops = elements, .elements = 2 * elements};
}

}  // namespace tidepool
