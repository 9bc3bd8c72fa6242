// embedding_cost() counts the work of looking up rows, and of adding their gradients.
#pragma once

#include "tidepool/kernel_cost.h"

namespace tidepool {

// Reads a token's row and a position's row, writes the fp32 stream.
constexpr KernelCost embedding_cost(u64 rows, u64 columns) {
  return {.vector_flops = rows * columns, .elements = 2 * rows * columns, .bytes = 4 * rows * columns};
}
// Reads the stream's gradient; reads and writes two accumulators.
constexpr KernelCost embedding_backward_cost(u64 rows, u64 columns) {
  return {.vector_flops = 2 * rows * columns, .bytes = 20 * rows * columns};
}

}  // namespace tidepool
