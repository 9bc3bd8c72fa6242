// Costs of a layer's experts: their products, and the passes that bring tokens to them and back. `rows` are
// those that are expected in the range (routed_rows_expected()), because the true count is known only while
// training.
#pragma once

#include <algorithm>

#include "tidepool/kernel_cost.h"

namespace tidepool {

// Choices are i32: read twice, and a slot and a place written for each.
constexpr KernelCost sort_by_expert_cost(u64 choices) {
  return {.vector_flops = 4 * choices, .bytes = 16 * choices};
}

constexpr KernelCost gather_rows_cost(u64 rows, u64 columns) { return {.elements = 2 * rows * columns}; }

// `rows`: rows of experts; `tokens`: rows of the sums. `sums`: fp32 arrays [tokens, columns] that are read or
// written.
constexpr KernelCost combine_experts_cost(u64 rows, u64 tokens, u64 columns, u64 sums) {
  return {.vector_flops = 2 * rows * columns + tokens * columns,
          .elements = rows * columns,
          .bytes = 4 * sums * tokens * columns};
}

constexpr KernelCost route_bias_gradient_cost(u64 rows, u64 columns) {
  return {.vector_flops = 2 * rows * columns, .elements = rows * columns};
}

// Every expert's weights are read once.
constexpr KernelCost grouped_matmul_cost(u64 rows, u64 n, u64 k, u64 experts, u64 weight_bytes) {
  return {.m = rows,
          .n = n,
          .k = k,
          .groups = experts,
          .product_flops = 2 * rows * n * k,
          .elements = rows * k + rows * n,
          .bytes = weight_bytes * experts * k * n};
}
// Reads and writes the fp32 accumulators of all experts.
constexpr KernelCost grouped_weight_gradient_cost(u64 rows, u64 n, u64 k, u64 experts) {
  return {.m = experts * k,
          .n = n,
          .k = rows / std::max<u64>(experts, 1),
          .groups = experts,
          .product_flops = 2 * rows * n * k,
          .elements = rows * k + rows * n,
          .bytes = 8 * experts * k * n};
}

}  // namespace tidepool
