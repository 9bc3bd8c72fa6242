#pragma once

#include "kernels/cost.h"

namespace tidepool {

// Ten Philox rounds make four elements' bits: about 20 integer operations each, no bytes of its own.
constexpr Cost dropout_cost(u64 elements) { return {.flops = 20 * elements}; }

}  // namespace tidepool
