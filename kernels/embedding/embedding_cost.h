#pragma once

#include "kernels/cost.h"

namespace tidepool {

constexpr Cost embedding_cost(u64 rows, u64 columns) {
  return {.flops = rows * columns, .bytes = 12 * rows * columns};
}
constexpr Cost embedding_backward_cost(u64 rows, u64 columns) {
  return {.flops = 2 * rows * columns, .bytes = 24 * rows * columns};
}

}  // namespace tidepool
