// A tile of 128 x 128 of a grouped product with fused multiply-adds: fp32, and bf16 on GPUs without tensor
// cores for it. Each thread has 8 x 8 elements; 16 numbers from shared memory feed 64 operations.
#pragma once

#include "kernels/experts/grouped_launch.h"
#include "kernels/experts/grouped_output.cuh"

namespace tidepool::cuda {

inline constexpr u32 grouped_fma_pitch = grouped_tile + 4;  // keeps float4, and spreads transposed stores
struct alignas(16) FmaTile {
  float at[grouped_fma_step][grouped_fma_pitch];
};
using FmaSums = float[8][8];

// Loads a factor that lies by rows of inner elements: `rows` (at most 128 count) of `columns` inner ones.
template <bool whole, class T>
__device__ __forceinline__ void load_fma_transposed(FmaTile& tile, const T* from, u64 stride, u32 rows,
                                                    u32 columns) {
  const u32 row = threadIdx.x / 2, inner = threadIdx.x % 2 * 8;
  float v[8] = {};
  if (row < rows && inner < columns) load8<whole>(from + row * stride, inner, columns, v);
  UNROLL for (u32 i = 0; i < 8; ++i) tile.at[inner + i][row] = v[i];
}
// Loads a factor that lies by inner rows.
template <bool whole, class T>
__device__ __forceinline__ void load_fma(FmaTile& tile, const T* from, u64 stride, u32 rows, u32 columns) {
  const u32 inner = threadIdx.x / 16, column = threadIdx.x % 16 * 8;
  float v[8] = {};
  if (inner < rows && column < columns) load8<whole>(from + inner * stride, column, columns, v);
  UNROLL for (u32 i = 0; i < 8; ++i) tile.at[inner][column + i] = v[i];
}

// The thread's rows, or columns, are 4 neighbours in each half of the tile.
__device__ __forceinline__ u32 fma_place(u32 thread, u32 i) { return 4 * thread + i % 4 + i / 4 * 64; }

__device__ __forceinline__ void load_fma_place(float (&v)[8], const float* row, u32 thread) {
  UNROLL for (u32 half = 0; half < 2; ++half) {
    const float4 four = *reinterpret_cast<const float4*>(row + 4 * thread + 64 * half);
    v[4 * half] = four.x, v[4 * half + 1] = four.y, v[4 * half + 2] = four.z, v[4 * half + 3] = four.w;
  }
}

// d = the product over `inner` elements. load(left, right, begin) loads the elements from `begin` on.
template <class Load>
__device__ __forceinline__ void stream_fma(FmaSums& d, u32 inner, Load load) {
  BLOCK_SHARED(FmaTile, left);
  BLOCK_SHARED(FmaTile, right);
  UNROLL for (u32 i = 0; i < 8; ++i) UNROLL for (u32 j = 0; j < 8; ++j) d[i][j] = 0.0f;
  for (u32 begin = 0; begin < inner; begin += grouped_fma_step) {
    load(left, right, begin);
    __syncthreads();
    UNROLL for (u32 k = 0; k < grouped_fma_step; ++k) {
      float a[8], b[8];
      load_fma_place(a, left.at[k], threadIdx.x / 16);
      load_fma_place(b, right.at[k], threadIdx.x % 16);
      UNROLL for (u32 i = 0; i < 8; ++i) UNROLL for (u32 j = 0; j < 8; ++j) d[i][j] =
          fmaf(a[i], b[j], d[i][j]);
    }
    __syncthreads();
  }
}

template <bool whole, class T, class P>
__device__ __forceinline__ void store_fma(const FmaSums& d, const TileOutput<T, P>& out) {
  UNROLL for (u32 i = 0; i < 8; ++i) UNROLL for (u32 j = 0; j < 8; j += 2) {
    out.template put_pair<whole>(fma_place(threadIdx.x / 16, i), fma_place(threadIdx.x % 16, j), d[i][j],
                                 d[i][j + 1]);
  }
}

}  // namespace tidepool::cuda
