#pragma once

#include "kernels/cost.h"

namespace tidepool {

// x [M, K], w [K, N], y [M, N]. `weight_bytes`: of one weight as it is stored.
constexpr Cost matmul_cost(u64 m, u64 n, u64 k, u64 weight_bytes) {
  return {.flops = 2 * m * n * k, .bytes = 4 * (m * k + m * n) + weight_bytes * k * n};
}

// Reads x and dy; reads and writes the accumulator.
constexpr Cost weight_gradient_cost(u64 m, u64 n, u64 k) {
  return {.flops = 2 * m * n * k, .bytes = 4 * (m * k + m * n) + 8 * k * n};
}

}  // namespace tidepool
