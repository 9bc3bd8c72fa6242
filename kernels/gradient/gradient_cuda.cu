// Sums and norms of gradients, with the CPU's bits: gradient_granule.h defines the order in which squares are
// added.
#include "kernels/cuda/dispatch.h"
#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/require.h"
#include "kernels/gradient/gradient_launch.h"

namespace tidepool {
namespace cuda {
namespace {

struct Parts {
  const float* at[summed_parts_max];
  u32 count;
};

// out = sum of the parts, left to right, rounded once.
template <bool whole, class Out>
__global__ void __launch_bounds__(256) sum_kernel(Parts parts, Out* out, u64 elements) {
  for (u64 at = vector_elements * grid_thread(); at < elements; at += vector_elements * grid_threads()) {
    float sum[8], next[8];
    load8<whole>(parts.at[0], at, elements, sum);
    for (u32 part = 1; part < parts.count; ++part) {
      load8<whole>(parts.at[part], at, elements, next);
      for (u32 i = 0; i < 8; ++i) sum[i] += next[i];
    }
    store8<whole>(out, at, elements, sum);
  }
}

template <class Out>
void sum_parts(std::span<const float* const> from, Out* out, u64 elements, cudaStream_t stream) {
  require(!from.empty() && from.size() <= summed_parts_max, "1 to 16 arrays are summed");
  if (elements == 0) return;
  Parts parts = {.at = {}, .count = static_cast<u32>(from.size())};
  bool vectors = rows_of_vectors(elements, Values(reinterpret_cast<std::byte*>(out), Precision::fp32));
  for (u32 part = 0; part < parts.count; ++part) {
    parts.at[part] = from[part];
    vectors = vectors && rows_of_vectors(elements, from[part]);
  }
  for_bool(vectors, [&](auto whole) {
    launch<sum_kernel<whole.value, Out>>(elementwise_launch(elements, vector_elements), stream, parts, out,
                                         elements);
  });
}

// Sum of squares of one cell of n elements, by 16 neighbouring threads; the first thread has the result. A
// float's square is exact in double, so fusing its product with the addition changes no bit.
template <class T>
__device__ double cell_squares(const T* cell, u32 n) {
  double sum = 0;
#pragma unroll 8
  for (u32 i = threadIdx.x % norm_lanes; i < n; i += norm_lanes) {
    const double value = widened(cell[i]);
    sum = __fma_rn(value, value, sum);
  }
  for (u32 half = norm_lanes / 2; half > 0; half /= 2) {
    sum += __shfl_xor_sync(all_lanes, sum, static_cast<int>(half));
  }
  return sum;
}

// RETURNS: number of elements of this thread's cell, 0 past the end.
__device__ u32 elements_of_cell(u64 cell, u64 elements) {
  const u64 begin = cell * norm_cell_elements;
  return begin >= elements ? 0 : static_cast<u32>(min(elements - begin, norm_cell_elements));
}

template <class T>
__global__ void __launch_bounds__(512) cells_kernel(const T* grad, u64 elements, double* cells) {
  const u64 cell = grid_thread() / norm_lanes;
  const u32 n = elements_of_cell(cell, elements);
  const double sum = cell_squares(grad + cell * norm_cell_elements, n);
  if (n > 0 && threadIdx.x % norm_lanes == 0) cells[cell] = sum;
}

template <class T>
__global__ void __launch_bounds__(512) partials_kernel(const T* grad, u64 elements, double* partials) {
  BLOCK_SHARED(double[norm_cells_per_granule], cells);
  const u64 cell = grid_thread() / norm_lanes;
  const double sum = cell_squares(grad + cell * norm_cell_elements, elements_of_cell(cell, elements));
  if (threadIdx.x % norm_lanes == 0) cells[threadIdx.x / norm_lanes] = sum;
  __syncthreads();
  if (threadIdx.x > 0) return;
  double granule = 0;
  for (u32 i = 0; i < norm_cells_per_granule; ++i) granule += cells[i];  // a cell past the end adds +0
  partials[blockIdx.x] = granule;
}

// One thread per granule: sums its cells, some of which other devices have made, in order.
__global__ void __launch_bounds__(256)
    granules_kernel(const double* cells, const u32* places, u32 count, double* partials) {
  const u64 granule = grid_thread();
  if (granule >= count) return;
  double sum = 0;
  for (u32 i = 0; i < norm_cells_per_granule; ++i) sum += cells[granule * norm_cells_per_granule + i];
  partials[places[granule]] = sum;
}

}  // namespace
}  // namespace cuda

void finish_gradient_cuda(std::span<const float* const> accumulators, std::byte* grad, Precision precision,
                          u64 elements, cudaStream_t stream) {
  cuda::require(!accumulators.empty(), "a gradient has an accumulator");
  if (precision == Precision::bf16)
    return cuda::sum_parts(accumulators, reinterpret_cast<cuda::Bf16*>(grad), elements, stream);
  if (precision == Precision::fp16)
    return cuda::sum_parts(accumulators, reinterpret_cast<cuda::Fp16*>(grad), elements, stream);
  float* sum = reinterpret_cast<float*>(grad);
  cuda::require(sum == accumulators[0], "in fp32 the first accumulator becomes the gradient");
  if (accumulators.size() > 1) cuda::sum_parts(accumulators, sum, elements, stream);
}

void sum_in_order_cuda(std::span<const float* const> parts, float* sum, u64 elements, cudaStream_t stream) {
  cuda::sum_parts(parts, sum, elements, stream);
}

void norm_partials_cuda(const std::byte* grad, Precision precision, u64 elements, double* partials,
                        cudaStream_t stream) {
  using namespace cuda;
  if (elements == 0) return;
  for_precision(precision, [&](auto type) {
    using T = decltype(type);
    launch<partials_kernel<T>>(norm_launch(elements), stream, reinterpret_cast<const T*>(grad), elements,
                               partials);
  });
}

void norm_cells_cuda(const std::byte* grad, Precision precision, u64 elements, double* cells,
                     cudaStream_t stream) {
  using namespace cuda;
  if (elements == 0) return;
  for_precision(precision, [&](auto type) {
    using T = decltype(type);
    launch<cells_kernel<T>>(norm_launch(elements), stream, reinterpret_cast<const T*>(grad), elements, cells);
  });
}

void norm_granules_cuda(const double* cells, const u32* places, u32 count, double* partials,
                        cudaStream_t stream) {
  if (count == 0) return;
  cuda::launch<cuda::granules_kernel>({.grid = {static_cast<u32>(div_up(count, 256))}, .block = {256}},
                                      stream, cells, places, count, partials);
}

}  // namespace tidepool
