// Shared device code of layer norm and RMS norm.
#pragma once

#include "kernels/cuda/device.h"
#include "kernels/norm/norm_launch.h"

namespace tidepool::cuda {

// Calls fn(column) for the first column of each vector of 8 of a row that this thread takes.
template <class Fn>
__device__ __forceinline__ void for_columns(u32 columns, Fn fn) {
  for (u32 c = vector_elements * threadIdx.x; c < columns; c += vector_elements * blockDim.x) fn(c);
}

// RETURNS: the first of the 8 columns of a thread of norm_tiles_launch.
__device__ __forceinline__ u32 norm_tile_column() { return blockIdx.y * norm_tile_columns + 8 * threadIdx.x; }

// Calls fn(row) for each of this thread's rows in the block's group.
template <class Fn>
__device__ __forceinline__ void for_rows_of_norm_tile(u32 rows, Fn fn) {
  const u32 begin = blockIdx.x * norm_group_rows;
  const u32 end = rows - begin < norm_group_rows ? rows : begin + norm_group_rows;
  for (u32 row = begin + threadIdx.y; row < end; row += norm_tile_threads_y) fn(row);
}

// Sums each thread's 8 columns over the threads that share these columns, into partials [groups, kinds, C].
template <u32 kinds>
__device__ __forceinline__ void store_norm_partials(const float (&own)[kinds][8], u32 columns,
                                                    float* partials) {
  BLOCK_SHARED(float[norm_tile_threads_y][kinds][norm_tile_columns], sums);
  for (u32 kind = 0; kind < kinds; ++kind)
    for (u32 i = 0; i < 8; ++i) sums[threadIdx.y][kind][8 * threadIdx.x + i] = own[kind][i];
  __syncthreads();
  const u32 thread = threadIdx.y * blockDim.x + threadIdx.x;  // of 256: one column each
  const u32 column = blockIdx.y * norm_tile_columns + thread;
  if (column >= columns) return;
  for (u32 kind = 0; kind < kinds; ++kind) {
    float total = 0;
    for (u32 y = 0; y < norm_tile_threads_y; ++y) total += sums[y][kind][thread];
    partials[(u64{blockIdx.x} * kinds + kind) * columns + column] = total;
  }
}

template <u32 kinds>
struct NormSums {
  float* out[kinds];  // [C] each
};

// Sums groups in order, then adds the sum once to the output.
template <u32 kinds>
__global__ void norm_sums_kernel(u32 groups, u32 columns, const float* partials, NormSums<kinds> sums,
                                 bool accumulate) {
  const u64 i = grid_thread();
  if (i >= u64{kinds} * columns) return;
  float total = 0;
  for (u32 group = 0; group < groups; ++group) total += partials[u64{group} * kinds * columns + i];
  float& out = sums.out[i / columns][i % columns];
  out = accumulate ? out + total : total;
}

}  // namespace tidepool::cuda
