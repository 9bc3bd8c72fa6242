// matmul_cost() counts the work of matrix products, of their gradients, and of the passes beside them.
#pragma once

#include "tidepool/kernel_cost.h"

namespace tidepool {

// x [M, K], w [K, N], y [M, N]. `weight_bytes`: stored bytes of one weight. A bias is free: every library
// adds it to the result in the same pass.
constexpr KernelCost matmul_cost(u64 m, u64 n, u64 k, u64 weight_bytes) {
  return {.m = m,
          .n = n,
          .k = k,
          .product_flops = 2 * m * n * k,
          .elements = m * k + m * n,
          .bytes = weight_bytes * k * n};
}

// x [M, K], dy [M, N], dw [K, N]: reads and writes the fp32 accumulator.
constexpr KernelCost weight_gradient_cost(u64 m, u64 n, u64 k) {
  return {
      .m = k, .n = n, .k = m, .product_flops = 2 * m * n * k, .elements = m * k + m * n, .bytes = 8 * k * n};
}
// Column sums of dy [M, N].
constexpr KernelCost bias_gradient_cost(u64 m, u64 n) { return {.vector_flops = m * n, .elements = m * n}; }

// Adds a product [M, N] to the fp32 stream, in a separate pass.
constexpr KernelCost residual_cost(u64 m, u64 n) {
  return {.vector_flops = m * n, .elements = m * n, .bytes = 8 * m * n};
}

}  // namespace tidepool
