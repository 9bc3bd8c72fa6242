// Products of tiles of 64 x 64 with fused multiply-adds, for the gated delta rule. A block of 256 threads
// brings both factors into shared memory, 32 elements of the inner dimension at a time, as floats. Each
// thread has 4 x 4 neighbours of the result: 8 reads of 16 bytes feed 64 operations, of which at most the
// half cannot be broadcast, so that shared memory and multiply-adds are about equally busy.
#pragma once

#include "kernels/cuda/device.h"
#include "kernels/delta_rule/delta_rule_launch.h"

namespace tidepool::cuda {

inline constexpr u32 delta_tile = delta_chunk_tokens;  // rows and columns of a result
inline constexpr u32 delta_step = 32;                  // of the inner dimension
inline constexpr u32 delta_stage = delta_tile * delta_step;
static_assert(delta_tile == 64 && delta_threads == 256, "each thread has 4 x 4 elements");

using DeltaTile = float[4][4];
__device__ __forceinline__ void clear(DeltaTile& x) {
  UNROLL for (u32 i = 0; i < 4; ++i) UNROLL for (u32 j = 0; j < 4; ++j) x[i][j] = 0.0f;
}

// The first of the thread's rows, and of its columns.
__device__ __forceinline__ u32 delta_row() { return threadIdx.x / 16 * 4; }
__device__ __forceinline__ u32 delta_column() { return threadIdx.x % 16 * 4; }

__device__ __forceinline__ void load4(const float* p, float (&v)[4]) {
  const float4 x = *reinterpret_cast<const float4*>(p);
  v[0] = x.x, v[1] = x.y, v[2] = x.z, v[3] = x.w;
}
__device__ __forceinline__ void store4(float* p, const float (&v)[4]) {
  *reinterpret_cast<float4*>(p) = make_float4(v[0], v[1], v[2], v[3]);
}

// Place of element k of a row of a stage [64, 32]. Fours of a row are exchanged, so that the same four of
// rows 4, 8, 12, ... lie in different banks.
__device__ __forceinline__ u32 staged(u32 row, u32 k) {
  return row * delta_step + ((k / 4 ^ (row / 4 & 7)) * 4 + k % 4);
}

// Fills a stage [64, 32]: load(row, k, v) gives eight elements of a row. Each thread has one eight.
template <class Load>
__device__ __forceinline__ void stage_rows(float* stage, Load load) {
  const u32 row = threadIdx.x / 4, k = threadIdx.x % 4 * 8;
  float v[8];
  load(row, k, v);
  *reinterpret_cast<float4*>(stage + staged(row, k)) = make_float4(v[0], v[1], v[2], v[3]);
  *reinterpret_cast<float4*>(stage + staged(row, k + 4)) = make_float4(v[4], v[5], v[6], v[7]);
}
// Fills a stage [32, 64]: load(k, column, v) gives eight elements of row k. Twice for [64, 64].
template <class Load>
__device__ __forceinline__ void stage_columns(float* stage, u32 first, Load load) {
  const u32 k = first + threadIdx.x / 8, column = threadIdx.x % 8 * 8;
  float v[8];
  load(k, column, v);
  store8<true>(stage, k * delta_tile + column, 0, v);
}

// Elements k to k + 3 of four rows of a stage [64, 32].
__device__ __forceinline__ void load_rows(DeltaTile& x, const float* stage, u32 row, u32 k) {
  UNROLL for (u32 i = 0; i < 4; ++i) load4(stage + staged(row + i, k), x[i]);
}

// sums[i][j] += rows of `left` times rows of `right`, both [64, 32].
__device__ __forceinline__ void multiply_rows(DeltaTile& sums, const float* left, const float* right, u32 row,
                                              u32 column) {
  for (u32 k = 0; k < delta_step; k += 4) {
    DeltaTile a, b;
    load_rows(a, left, row, k);
    load_rows(b, right, column, k);
    UNROLL for (u32 m = 0; m < 4; ++m) UNROLL for (u32 i = 0; i < 4; ++i) UNROLL for (u32 j = 0; j < 4; ++j)
        sums[i][j] = fmaf(a[i][m], b[j][m], sums[i][j]);
  }
}
// sums[i][j] += rows of `left` [64, 32] times columns of `right` [32, 64].
__device__ __forceinline__ void multiply_columns(DeltaTile& sums, const float* left, const float* right) {
  for (u32 k = 0; k < delta_step; k += 4) {
    DeltaTile a, b;
    load_rows(a, left, delta_row(), k);
    UNROLL for (u32 m = 0; m < 4; ++m) load4(right + (k + m) * delta_tile + delta_column(), b[m]);
    UNROLL for (u32 m = 0; m < 4; ++m) UNROLL for (u32 i = 0; i < 4; ++i) UNROLL for (u32 j = 0; j < 4; ++j)
        sums[i][j] = fmaf(a[i][m], b[m][j], sums[i][j]);
  }
}

// Both factors of a step.
struct DeltaStages {
  float left[delta_stage], right[delta_stage];
};

// sums += left right^T over `inner` elements: left(row, k, v) and right(column, k, v) give eight of them,
// zero at or above `inner`. Ends with a barrier.
template <class Left, class Right>
__device__ __forceinline__ void add_row_products(DeltaTile& sums, DeltaStages& s, u32 inner, Left left,
                                                 Right right) {
  KEEP_ROLLED for (u32 begin = 0; begin < inner; begin += delta_step) {
    stage_rows(s.left, [&](u32 row, u32 k, float(&v)[8]) { left(row, begin + k, v); });
    stage_rows(s.right, [&](u32 column, u32 k, float(&v)[8]) { right(column, begin + k, v); });
    __syncthreads();
    multiply_rows(sums, s.left, s.right, delta_row(), delta_column());
    __syncthreads();
  }
}
// sums += left right over a chunk's 64 rows of `right`: right(k, column, v) gives eight columns of row k.
template <class Left, class Right>
__device__ __forceinline__ void add_chunk_products(DeltaTile& sums, DeltaStages& s, Left left, Right right) {
  KEEP_ROLLED for (u32 begin = 0; begin < delta_tile; begin += delta_step) {
    stage_rows(s.left, [&](u32 row, u32 k, float(&v)[8]) { left(row, begin + k, v); });
    stage_columns(s.right, 0, [&](u32 k, u32 column, float(&v)[8]) { right(begin + k, column, v); });
    __syncthreads();
    multiply_columns(sums, s.left, s.right);
    __syncthreads();
  }
}

}  // namespace tidepool::cuda
