// Second moments in factors on the device, with the CPU's bits: kernels of a rule that has them. A rule's
// scalars are made of UpdateScalars and have `keep`, `share`, `scale` and `learning_rate`.
//
// The sum: three passes over a gradient of two bytes, and one over parameters and masters, read and written,
// are 14 bytes per parameter in bf16; sums of tiles are 0.03 floats. So memory is the bottleneck.
#pragma once

#include "kernels/cuda/dispatch.h"
#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/cuda/launch.h"
#include "kernels/second_moment/second_moment.h"

namespace tidepool::cuda::moments {

// A block has a thread for each column of a tile, and takes as many rows at a time as make all its threads
// add up rows: 16 threads for each.
inline constexpr u32 rows_at_once = moment_tile / moment_lanes;
static_assert(moment_tile == 256 && moment_lanes == 16 && moment_sum_block == 256);

struct Shape {
  u64 begin;  // of the chunk
  u32 rows, columns;
  bool matrix;
};
inline Shape shape_of(const UpdateTensor& tensor) {
  return {tensor.begin, tensor.height(), tensor.columns, tensor.rows > 0};
}

// Values of at most `rows_at_once` rows of a tile, by row and column. The two rows of a warp lie in different
// banks.
inline constexpr u32 strip_width = moment_tile + moment_lanes;
using Strip = float[rows_at_once][strip_width];

// RETURNS: the sum of add(value, sum) over this thread's row of the strip; all 16 threads of the row have it.
template <class Add>
__device__ float row_sum(const Strip& strip, Add&& add) {
  const u32 row = threadIdx.x / moment_lanes, lane = threadIdx.x % moment_lanes;
  float sum = 0;
  for (u32 i = lane; i < moment_tile; i += moment_lanes) sum = add(strip[row][i], sum);
  for (u32 half = moment_lanes / 2; half > 0; half /= 2)
    sum += __shfl_xor_sync(all_lanes, sum, static_cast<int>(half));
  return sum;
}

// Sum of values by blocks of 256, by one block of threads; thread 0 has it.
template <class T>
__device__ double sum_in_blocks(const T* values, u64 count, double* blocks) {
  const u64 all = div_up(count, u64{moment_sum_block});
  for (u64 block = threadIdx.x; block < all; block += blockDim.x) {
    const u64 end = min(count, (block + 1) * moment_sum_block);
    double sum = 0;
    for (u64 i = block * moment_sum_block; i < end; ++i) sum += static_cast<double>(values[i]);
    blocks[block] = sum;
  }
  __syncthreads();
  double sum = 0;
  for (u64 block = 0; block < all && threadIdx.x == 0; ++block) sum += blocks[block];
  return sum;
}

template <class Scalars, class T>
__global__ void __launch_bounds__(moment_tile) sums_kernel(const T* grad, Shape shape, MomentScratch scratch,
                                                           float epsilon, const UpdateScalars* scalars) {
  BLOCK_SHARED(Strip, strip);
  if (scalars->skip) return;
  const float scale = Scalars(*scalars).scale;
  const u32 first = blockIdx.y * moment_tile, rows = min(shape.rows - first, moment_tile);
  const u32 column = blockIdx.x * moment_tile + threadIdx.x;
  const bool inside = column < shape.columns;
  float of_column = 0;
  for (u32 at = 0; at < rows; at += rows_at_once) {
    for (u32 i = 0; i < rows_at_once; ++i) {
      float square = 0;
      if (inside && at + i < rows) {
        const float g = __fmul_rn(scale, widened(grad[u64{first + at + i} * shape.columns + column]));
        square = __fmaf_rn(g, g, epsilon);
      }
      strip[i][threadIdx.x] = square;
      of_column += square;
    }
    __syncthreads();
    const float sum = row_sum(strip, [](float value, float so_far) { return so_far + value; });
    const u32 row = at + threadIdx.x / moment_lanes;
    if (threadIdx.x % moment_lanes == 0 && row < rows)
      scratch.row_sums[u64{blockIdx.x} * shape.rows + first + row] = sum;
    __syncthreads();
  }
  if (inside) scratch.column_sums[u64{blockIdx.y} * shape.columns + column] = of_column;
}

__device__ inline float inverse_root(float x) { return __fdiv_rn(1.0f, __fsqrt_rn(x)); }

// One thread for each moment. `factors`: of columns, or null.
template <class Scalars>
__global__ void __launch_bounds__(256)
    means_kernel(const float* of_tiles, u32 tiles, u32 over, u32 count, float* moments, float* factors,
                 const UpdateScalars* scalars) {
  const u64 i = grid_thread();
  if (i >= count || scalars->skip) return;
  const Scalars s(*scalars);
  double sum = 0;
  for (u32 tile = 0; tile < tiles; ++tile) sum += static_cast<double>(of_tiles[u64{tile} * count + i]);
  const float mean = static_cast<float>(sum / over);
  moments[i] = __fmaf_rn(s.keep, moments[i], __fmul_rn(s.share, mean));
  if (factors != nullptr) factors[i] = inverse_root(moments[i]);
}

// One block. `moments`: of rows; null: the tensor is no matrix, and its row's factor is 1.
template <class Scalars>
__global__ void __launch_bounds__(256) row_factors_kernel(const float* moments, u32 rows, double* blocks,
                                                          float* factors, const UpdateScalars* scalars) {
  BLOCK_SHARED(float[1], mean);
  if (scalars->skip) return;
  if (moments == nullptr) {
    if (threadIdx.x == 0) factors[0] = 1;
    return;
  }
  const double sum = sum_in_blocks(moments, rows, blocks);
  if (threadIdx.x == 0) mean[0] = static_cast<float>(sum / rows);
  __syncthreads();
  for (u32 row = threadIdx.x; row < rows; row += blockDim.x)
    factors[row] = inverse_root(__fdiv_rn(moments[row], mean[0]));
}

template <class Scalars, class T>
__global__ void __launch_bounds__(moment_tile)
    squares_kernel(const T* grad, Shape shape, MomentScratch scratch, const UpdateScalars* scalars) {
  BLOCK_SHARED(Strip, strip);
  BLOCK_SHARED(float[moment_tile], row_factors);
  BLOCK_SHARED(double[moment_tile], of_rows);
  if (scalars->skip) return;
  const float scale = Scalars(*scalars).scale;
  const u32 first = blockIdx.y * moment_tile, rows = min(shape.rows - first, moment_tile);
  const u32 column = blockIdx.x * moment_tile + threadIdx.x;
  const bool inside = column < shape.columns;
  const float of_column = inside ? scratch.column_factors[column] : 0.0f;
  if (threadIdx.x < rows) row_factors[threadIdx.x] = scratch.row_factors[first + threadIdx.x];
  of_rows[threadIdx.x] = 0;
  __syncthreads();
  for (u32 at = 0; at < rows; at += rows_at_once) {
    for (u32 i = 0; i < rows_at_once; ++i) {
      float x = 0;
      if (inside && at + i < rows) {
        const float g = __fmul_rn(scale, widened(grad[u64{first + at + i} * shape.columns + column]));
        x = __fmul_rn(__fmul_rn(row_factors[at + i], of_column), g);
      }
      strip[i][threadIdx.x] = x;
    }
    __syncthreads();
    const float sum = row_sum(strip, [](float x, float so_far) { return __fmaf_rn(x, x, so_far); });
    const u32 row = threadIdx.x / moment_lanes;
    if (threadIdx.x % moment_lanes == 0 && at + row < rows) of_rows[at + row] = static_cast<double>(sum);
    __syncthreads();
  }
  for (u32 half = moment_tile / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) of_rows[threadIdx.x] += of_rows[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) scratch.squares[u64{blockIdx.y} * gridDim.x + blockIdx.x] = of_rows[0];
}

template <class Scalars>
__global__ void __launch_bounds__(256)
    rate_kernel(Shape shape, u32 tiles, MomentScratch scratch, const UpdateScalars* scalars) {
  if (scalars->skip) return;
  const double mean = sum_in_blocks(scratch.squares, tiles, scratch.blocks) /
                      static_cast<double>(u64{shape.rows} * shape.columns);
  if (threadIdx.x > 0) return;
  const double root = sqrt(mean), wanted = static_cast<double>(Scalars(*scalars).learning_rate);
  *scratch.rate = static_cast<float>(wanted / (root < 1 ? 1.0 : root));
}

// Updates the moments of a tensor, and finds the factors of its rows and columns and the rate of x.
template <class Scalars>
void update_moments(const UpdateTensor& tensor, ConstValues grad, const SecondMoments& moments,
                    const MomentScratch& scratch, float epsilon, const UpdateScalars* scalars,
                    cudaStream_t stream) {
  const Shape shape = shape_of(tensor);
  const u32 row_tiles = moment_tiles(shape.rows), column_tiles = moment_tiles(shape.columns);
  const LaunchShape tiles = {.grid = {column_tiles, row_tiles}, .block = {moment_tile}};
  const auto means = [&](const float* of_tiles, u32 count_of_tiles, u32 over, u32 count, float* to,
                         float* factors) {
    launch<means_kernel<Scalars>>({.grid = {static_cast<u32>(div_up(count, 256))}, .block = {256}}, stream,
                                  of_tiles, count_of_tiles, over, count, to, factors, scalars);
  };
  for_precision(grad.precision, [&](auto type) {
    using T = decltype(type);
    launch<sums_kernel<Scalars, T>>(tiles, stream, elements<T>(grad), shape, scratch, epsilon, scalars);
  });
  means(scratch.column_sums, row_tiles, shape.rows, shape.columns, moments.columns, scratch.column_factors);
  if (shape.matrix) means(scratch.row_sums, column_tiles, shape.columns, shape.rows, moments.rows, nullptr);
  launch<row_factors_kernel<Scalars>>({.grid = {1}, .block = {256}}, stream,
                                      shape.matrix ? moments.rows : nullptr, shape.rows, scratch.blocks,
                                      scratch.row_factors, scalars);
  for_precision(grad.precision, [&](auto type) {
    using T = decltype(type);
    launch<squares_kernel<Scalars, T>>(tiles, stream, elements<T>(grad), shape, scratch, scalars);
  });
  launch<rate_kernel<Scalars>>({.grid = {1}, .block = {256}}, stream, shape, row_tiles * column_tiles,
                               scratch, scalars);
}

}  // namespace tidepool::cuda::moments
