// Costs of soft caps.
#pragma once

#include "tidepool/kernel_cost.h"

namespace tidepool {

// Operations for one tanh, with an exponential and a division.
inline constexpr u64 tanh_flops = 24;

constexpr KernelCost soft_cap_cost(u64 elements) {
  return {.vector_flops = tanh_flops * elements, .elements = 2 * elements};
}

}  // namespace tidepool
