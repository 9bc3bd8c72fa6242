#pragma once

#include "tidepool/kernel_cost.h"

namespace tidepool {

// Reads the fp32 stream, writes an activation. With a residual: reads an activation, reads and writes the
// stream.
constexpr KernelCost rms_norm_cost(u64 rows, u64 columns, bool residual) {
  const u64 n = rows * columns;
  return {.vector_flops = (residual ? 6 : 5) * n, .elements = n, .bytes = (residual ? 8 : 4) * n};
}
// Reads x and dy, adds to the stream's gradient.
constexpr KernelCost rms_norm_backward_cost(u64 rows, u64 columns) {
  return {.vector_flops = 11 * rows * columns, .elements = rows * columns, .bytes = 12 * rows * columns};
}

}  // namespace tidepool
