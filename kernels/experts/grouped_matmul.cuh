// Arguments of grouped products on the device, and the choice of their kernels. Kernels for tensor cores and
// those with fused multiply-adds have a file each, because nvcc takes long for both together.
#pragma once

#include "kernels/experts/expert_search.cuh"
#include "kernels/experts/grouped_host.cuh"
#include "kernels/experts/grouped_matmul.h"

namespace tidepool::cuda {

// A: type of activations. P: type of parameters.
template <class A, class P>
struct Grouped {
  const i32* offsets;
  u32 experts, n, k;
  const A* x;
  const P* weight;
  u64 expert_stride;
  const P* bias;  // or null
  float scale;
  bool accumulate;
  A* y;

  __device__ __forceinline__ TileOutput<A, P> output(const ExpertTile& t, u32 column) const {
    return {.y = y + u64{t.begin} * n + column,
            .stride = n,
            .rows = t.rows,
            .columns = n - column,
            .bias = bias != nullptr ? bias + t.expert * expert_stride + column : nullptr,
            .scale = scale,
            .accumulate = accumulate};
  }
  // Calls fn(tile, first column) for each tile of this block.
  template <class Fn>
  __device__ __forceinline__ void for_tiles(Fn fn) const {
    for (u64 i = blockIdx.y;; i += gridDim.y) {
      const ExpertTile tile = find_expert_tile(offsets, experts, grouped_tile, i);
      if (tile.rows == 0) return;
      fn(tile, blockIdx.x * grouped_tile);
    }
  }
};

template <class A, class P>
Grouped<A, P> grouped_of(const GroupedMatmul& op) {
  return {.offsets = op.offsets,
          .experts = op.experts,
          .n = op.n,
          .k = op.k,
          .x = elements<A>(op.x),
          .weight = elements<P>(op.weight),
          .expert_stride = op.expert_stride,
          .bias = elements<P>(op.bias),
          .scale = op.scale,
          .accumulate = op.accumulate,
          .y = elements<A>(op.y)};
}

// Calls fn(transposed, whole).
template <class Fn>
void for_layout(const GroupedMatmul& op, Fn fn) {
  const bool whole = rows_of_vectors(op.k, op.x) && rows_of_vectors(op.n, op.y) &&
                     rows_of_vectors(op.transposed ? op.k : op.n, op.weight) &&
                     op.expert_stride % vector_elements == 0;
  for_bool(op.transposed, [&](auto transposed) { for_bool(whole, [&](auto w) { fn(transposed, w); }); });
}

// REQUIRES: the units of `shape` are fused multiply-adds.
void grouped_matmul_fma(const GroupedMatmul&, const LaunchShape&, cudaStream_t);

}  // namespace tidepool::cuda
