// Ends a step's backward: sums losses and norm partials, each in order.
//
// Partials are added one after the other, because the CPU defines that order: 7 G parameters have 107 k
// partials, at about 10 ns each (an addition in double and its load) 1 ms, once per step. To avoid other
// waits, the block's other warps bring the next tile into shared memory meanwhile.
#include <cmath>

#include "kernels/cuda/device.h"
#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/cuda/launch.h"

namespace tidepool {
namespace cuda {
namespace {

constexpr u32 finish_threads = 256;
constexpr u32 tile_partials = 1024;  // two tiles are 16 KiB

__device__ void load_tile(const NormFinish& f, u64 begin, u32 first, u32 threads, double* tile) {
  for (u32 i = first; i < tile_partials; i += threads) {
    tile[i] = begin + i < f.partial_count ? f.partials[begin + i] : 0.0;  // adding +0 changes nothing
  }
}

__device__ double sum_of_squares(const NormFinish& f) {
  BLOCK_SHARED(double[2][tile_partials], tiles);
  load_tile(f, 0, threadIdx.x, finish_threads, tiles[0]);
  double sum = 0;
  u32 now = 0;
  for (u64 begin = 0; begin < f.partial_count; begin += tile_partials, now ^= 1) {
    __syncthreads();
    if (threadIdx.x >= warp_threads) {
      load_tile(f, begin + tile_partials, threadIdx.x - warp_threads, finish_threads - warp_threads,
                tiles[now ^ 1]);
    } else if (threadIdx.x == 0) {
#pragma unroll 16
      for (u32 i = 0; i < tile_partials; ++i) sum += tiles[now][i];
    }
  }
  return sum;  // valid in the first thread
}

__global__ void __launch_bounds__(finish_threads) norm_finish_kernel(NormFinish f) {
  const double squares = sum_of_squares(f);
  if (threadIdx.x > 0) return;
  Sums sums;
  for (u32 i = 0; i < f.sums_count; ++i) sums.add(f.sums[i]);
  *f.result = step_result({.sums = sums,
                           .grad_norm = sqrt(squares),
                           .target_tokens = f.target_tokens,
                           .loss_scale = *f.loss_scale,
                           .loss_scaling = f.loss_scaling});
  *f.loss_scale = f.result->next_loss_scale;
}

__global__ void __launch_bounds__(256) add_kernel(double* y, const double* x, u64 n) {
  for (u64 i = grid_thread(); i < n; i += grid_threads()) y[i] += x[i];
}

__global__ void set_loss_scale_kernel(LossScale scale, LossScale* to) { *to = scale; }

}  // namespace
}  // namespace cuda

void add_numbers_cuda(double* y, const double* x, u64 n, cudaStream_t stream) {
  if (n > 0) cuda::launch<cuda::add_kernel>(cuda::elementwise_launch(n, 1), stream, y, x, n);
}

void set_loss_scale_cuda(const LossScale& scale, LossScale* to, cudaStream_t stream) {
  cuda::launch<cuda::set_loss_scale_kernel>({}, stream, scale, to);
}

void norm_finish_cuda(const NormFinish& f, cudaStream_t stream) {
  cuda::launch<cuda::norm_finish_kernel>({.block = {cuda::finish_threads}}, stream, f);
}

}  // namespace tidepool
