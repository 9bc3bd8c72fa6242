#pragma once

#include "tidepool/kernel_cost.h"

namespace tidepool {

// Reads the fp32 stream, writes an activation.
constexpr KernelCost layer_norm_cost(u64 rows, u64 columns) {
  return {.vector_flops = 8 * rows * columns, .elements = rows * columns, .bytes = 4 * rows * columns};
}
// Reads x and dy, adds to the stream's gradient.
constexpr KernelCost layer_norm_backward_cost(u64 rows, u64 columns) {
  return {.vector_flops = 16 * rows * columns, .elements = rows * columns, .bytes = 12 * rows * columns};
}

}  // namespace tidepool
