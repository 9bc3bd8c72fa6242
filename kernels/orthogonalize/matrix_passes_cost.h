// Costs of the passes over a matrix between the products of orthogonalize().
#pragma once

#include "tidepool/kernel_cost.h"

namespace tidepool {

// Reads the array, writes the packed matrix, and passes over that once more to divide.
constexpr KernelCost normalize_matrix_cost(u64 elements, u64 value_bytes) {
  return {.vector_flops = 3 * elements, .elements = 3 * elements, .bytes = value_bytes * elements};
}
constexpr KernelCost add_product_cost(u64 elements, bool has_x) {
  return {.vector_flops = 2 * elements,
          .elements = (has_x ? 2 : 1) * elements,
          .bytes = sizeof(float) * elements};
}
constexpr KernelCost scale_matrix_cost(u64 elements, u64 value_bytes) {
  return {.vector_flops = elements, .elements = elements, .bytes = value_bytes * elements};
}

}  // namespace tidepool
