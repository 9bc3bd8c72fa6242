// Shared device code of layer norm and RMS norm, and the backward of both. An RMS norm is a layer norm whose
// rows are not centred: its mean counts as zero, and it has no bias.
#pragma once

#include "kernels/cuda/device.h"
#include "kernels/cuda/dispatch.h"
#include "kernels/cuda/launch.h"
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
  const u32 thread = threadIdx.y * blockDim.x + threadIdx.x;  // 0 ... 255: one column each
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

// A: type of activations. P: type of parameters. D: type of dy, A or float.
template <class A, class P, class D>
struct NormBackwardRows {
  u32 rows, columns;
  const A* x;
  const P* weight;
  float weight_offset;
  const float* mean;  // null unless centred
  const float* rstd;
  const D* dy;
  A* dx;
  bool add_to_dx;
};

// RETURNS: the row's mean, or zero.
template <bool centred, class A, class P, class D>
__device__ __forceinline__ float norm_mean(const NormBackwardRows<A, P, D>& op, u32 row) {
  if constexpr (centred) return op.mean[row];
  return 0.0f;
}

// dx = rstd (g - mean(g) - xhat mean(g xhat)), g = dy weight; without mean(g) if rows are not centred.
template <bool centred, bool whole, class A, class P, class D>
__global__ void norm_dx_kernel(NormBackwardRows<A, P, D> op) {
  const u64 row = u64{blockIdx.x} * op.columns;
  const float mean = norm_mean<centred>(op, blockIdx.x), rstd = op.rstd[blockIdx.x];
  float xhat[8], g[8], weight[8];
  const auto load = [&](u32 c) {
    load8<whole>(op.x + row, c, op.columns, xhat);
    load8<whole>(op.dy + row, c, op.columns, g);
    load8<whole>(op.weight, c, op.columns, weight);
    for (u32 i = 0; i < 8; ++i) {
      xhat[i] = (xhat[i] - mean) * rstd;
      g[i] *= weight[i] + op.weight_offset;  // 0 past the row's end
    }
  };
  float sum_g = 0, sum_gx = 0;
  for_columns(op.columns, [&](u32 c) {
    load(c);
    for (u32 i = 0; i < 8; ++i) {
      if constexpr (centred) sum_g += g[i];
      sum_gx = fmaf(g[i], xhat[i], sum_gx);
    }
  });
  const float mean_g = centred ? block_sum(sum_g) / static_cast<float>(op.columns) : 0.0f;
  const float mean_gx = block_sum(sum_gx) / static_cast<float>(op.columns);
  for_columns(op.columns, [&](u32 c) {
    load(c);
    float dx[8] = {};
    if (op.add_to_dx) load8<whole>(op.dx + row, c, op.columns, dx);
    for (u32 i = 0; i < 8; ++i) dx[i] += fmaf(-xhat[i], mean_gx, g[i] - mean_g) * rstd;
    store8<whole>(op.dx + row, c, op.columns, dx);
  });
}

// Partial sums of dweight, and of dbias if rows are centred: one group's rows, one tile's columns.
template <bool centred, bool whole, class A, class P, class D>
__global__ void norm_partials_kernel(NormBackwardRows<A, P, D> op, float* partials) {
  const u32 column = norm_tile_column();
  float sums[centred ? 2 : 1][8] = {}, x[8], dy[8];
  if (column < op.columns)
    for_rows_of_norm_tile(op.rows, [&](u32 row) {
      const u64 at = u64{row} * op.columns;
      const float mean = norm_mean<centred>(op, row), rstd = op.rstd[row];
      load8<whole>(op.x + at, column, op.columns, x);
      load8<whole>(op.dy + at, column, op.columns, dy);
      for (u32 i = 0; i < 8; ++i) {
        sums[0][i] = fmaf(dy[i], (x[i] - mean) * rstd, sums[0][i]);
        if constexpr (centred) sums[1][i] += dy[i];
      }
    });
  store_norm_partials(sums, op.columns, partials);
}

// Starts the kernels of a backward with these types.
template <bool centred, bool whole, class A, class P, class D, class Op>
void launch_norm_backward_as(const Op& op, float weight_offset, const float* mean, bool sums,
                             cudaStream_t stream) {
  const NormBackwardRows<A, P, D> rows = {.rows = op.rows,
                                          .columns = op.columns,
                                          .x = elements<A>(op.x),
                                          .weight = elements<P>(op.weight),
                                          .weight_offset = weight_offset,
                                          .mean = mean,
                                          .rstd = op.rstd,
                                          .dy = elements<D>(op.dy),
                                          .dx = elements<A>(op.dx),
                                          .add_to_dx = op.add_to_dx};
  // Sums first: dx may be the same array as dy.
  if (sums)
    launch<norm_partials_kernel<centred, whole, A, P, D>>(norm_tiles_launch(op.rows, op.columns), stream,
                                                          rows, op.partials);
  launch<norm_dx_kernel<centred, whole, A, P, D>>(norm_rows_launch(op.rows, op.columns), stream, rows);
}

// Starts the backward of `op`, a LayerNormBackward or RmsNormBackward. The weights' gradients are skipped if
// the first of `out` is null. dy of an RMS norm may be fp32 beside 16-bit activations.
template <bool centred, class Op>
void launch_norm_backward(const Op& op, float weight_offset, const float* mean,
                          const NormSums<centred ? 2 : 1>& out, cudaStream_t stream) {
  constexpr u32 kinds = centred ? 2 : 1;
  const bool wide_dy = !centred && op.dy.precision == Precision::fp32;
  check_same_precision({op.x, op.dx, wide_dy ? ConstValues() : op.dy});
  const bool sums = out.out[0] != nullptr;
  for_bool(rows_of_vectors(op.columns, op.x, op.weight, op.dy, op.dx), [&](auto whole) {
    for_precisions(op.x.precision, op.weight.precision, [&](auto a, auto p) {
      using A = decltype(a);
      using P = decltype(p);
      if constexpr (!centred && sizeof(A) == 2) {
        if (wide_dy)
          return launch_norm_backward_as<centred, whole.value, A, P, float>(op, weight_offset, mean, sums,
                                                                            stream);
      }
      launch_norm_backward_as<centred, whole.value, A, P, A>(op, weight_offset, mean, sums, stream);
    });
  });
  if (!sums) return;
  launch<norm_sums_kernel<kinds>>(norm_sums_launch(kinds, op.columns), stream, norm_groups(op.rows),
                                  op.columns, op.partials, out, op.accumulate);
}

}  // namespace tidepool::cuda
