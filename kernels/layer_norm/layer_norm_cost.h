#pragma once

#include "kernels/cost.h"

namespace tidepool {

constexpr Cost layer_norm_cost(u64 rows, u64 columns) {
  return {.flops = 8 * rows * columns, .bytes = 8 * rows * columns};
}
constexpr Cost layer_norm_backward_cost(u64 rows, u64 columns) {
  return {.flops = 16 * rows * columns, .bytes = 16 * rows * columns};
}

}  // namespace tidepool
