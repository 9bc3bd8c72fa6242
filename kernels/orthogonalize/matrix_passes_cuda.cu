#include "kernels/cuda/dispatch.h"
#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/require.h"

namespace tidepool {
namespace cuda {
namespace {

constexpr u32 norm_threads = 256;

// The launch depends on the matrix alone, so that its norm is always summed in one order.
LaunchShape partials_launch(u64 elements) {
  LaunchShape shape = elementwise_launch(elements, vector_elements, norm_threads);
  shape.grid.x = shape.grid.x < matrix_partials_max ? shape.grid.x : matrix_partials_max;
  return shape;
}

// Numbers of X and G: of 16 bits, whatever the array holds.
template <class T>
__device__ __forceinline__ float rounded(float x) {
  if constexpr (std::is_same_v<T, float>) {
    return widened(narrowed<Bf16>(x));
  } else {
    return x;  // storing rounds
  }
}

__device__ __forceinline__ u64 place_of(const MatrixPlace& m, u64 element) {
  return m.begin + element / m.columns * m.row_step + element % m.columns * m.column_step;
}

// RETURNS: the block's sum, in thread 0.
__device__ double sum_of_block(double x) {
  BLOCK_SHARED(double[norm_threads / warp_threads], sums);
  x = warp_sum(x);
  if (lane_index() == 0) sums[warp_index()] = x;
  __syncthreads();
  double sum = 0;
  for (u32 warp = 0; warp < norm_threads / warp_threads && threadIdx.x == 0; ++warp) sum += sums[warp];
  return sum;
}

// The numbers are rounded to bf16 before they are divided: in fp16 small ones would be lost.
template <class From>
__global__ void __launch_bounds__(norm_threads)
    partials_kernel(MatrixPlace m, const From* from, u64 elements, double* partials) {
  double sum = 0;
  for (u64 i = grid_thread(); i < elements; i += grid_threads()) {
    const double x = static_cast<double>(rounded<float>(widened(from[place_of(m, i)])));
    sum = __fma_rn(x, x, sum);
  }
  sum = sum_of_block(sum);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

// One block. Leaves the norm behind the partials.
__global__ void __launch_bounds__(norm_threads) norm_kernel(double* partials, u32 count, float epsilon) {
  double sum = 0;
  for (u32 i = threadIdx.x; i < count; i += norm_threads) sum += partials[i];
  sum = sum_of_block(sum);
  if (threadIdx.x > 0) return;
  const float norm = rounded<float>(static_cast<float>(sqrt(sum)));
  partials[matrix_partials_max] = static_cast<double>(norm < epsilon ? epsilon : norm);
}

template <class From, class To>
__global__ void __launch_bounds__(256)
    divide_kernel(MatrixPlace m, const From* from, To* to, u64 elements, const double* norm) {
  const float by = static_cast<float>(*norm);
  for (u64 i = grid_thread(); i < elements; i += grid_threads()) {
    const float x = rounded<float>(widened(from[place_of(m, i)]));
    to[i] = narrowed<To>(rounded<To>(__fdiv_rn(x, by)));
  }
}

template <bool whole, class T>
__global__ void __launch_bounds__(256)
    add_product_kernel(float of_x, float of_product, const T* x, const float* product, T* y, u64 n) {
  for (u64 at = vector_elements * grid_thread(); at < n; at += vector_elements * grid_threads()) {
    float v[8] = {}, p[8];
    if (x != nullptr) load8<whole>(x, at, n, v);
    load8<whole>(product, at, n, p);
    for (u32 i = 0; i < 8; ++i)
      v[i] = rounded<T>(__fadd_rn(__fmul_rn(of_x, v[i]), __fmul_rn(of_product, p[i])));
    store8<whole>(y, at, n, v);
  }
}

template <class From, class To>
__global__ void __launch_bounds__(256)
    scale_kernel(MatrixPlace m, const From* from, To* to, u64 elements, float scale) {
  for (u64 i = grid_thread(); i < elements; i += grid_threads())
    to[place_of(m, i)] = narrowed<To>(__fmul_rn(scale, widened(from[i])));
}

}  // namespace
}  // namespace cuda

void normalize_matrix_cuda(const NormalizeMatrix& op, cudaStream_t stream) {
  using namespace cuda;
  const u64 elements = op.matrix.elements();
  if (elements == 0) return;
  const LaunchShape shape = partials_launch(elements);
  for_precisions(op.from.precision, op.to.precision, [&](auto from, auto to) {
    using From = decltype(from);
    using To = decltype(to);
    launch<partials_kernel<From>>(shape, stream, op.matrix, cuda::elements<From>(op.from), elements,
                                  op.partials);
    launch<norm_kernel>({.grid = {}, .block = {norm_threads}}, stream, op.partials, shape.grid.x, op.epsilon);
    launch<divide_kernel<From, To>>(elementwise_launch(elements, 1), stream, op.matrix,
                                    cuda::elements<From>(op.from), cuda::elements<To>(op.to), elements,
                                    op.partials + matrix_partials_max);
  });
}

void add_product_cuda(const AddProduct& op, cudaStream_t stream) {
  using namespace cuda;
  if (op.elements == 0) return;
  require(op.x.data == nullptr || op.x.precision == op.y.precision, "x and y have one precision");
  const bool vectors = rows_of_vectors(op.elements, op.y, ConstValues(op.product)) &&
                       (op.x.data == nullptr || rows_of_vectors(op.elements, op.x));
  for_bool(vectors, [&](auto whole) {
    for_precision(op.y.precision, [&](auto type) {
      using T = decltype(type);
      launch<add_product_kernel<whole.value, T>>(elementwise_launch(op.elements, vector_elements), stream,
                                                 op.of_x, op.of_product, elements<T>(op.x), op.product,
                                                 elements<T>(op.y), op.elements);
    });
  });
}

void scale_matrix_cuda(const ScaleMatrix& op, cudaStream_t stream) {
  using namespace cuda;
  const u64 elements = op.matrix.elements();
  if (elements == 0) return;
  for_precisions(op.from.precision, op.to.precision, [&](auto from, auto to) {
    using From = decltype(from);
    using To = decltype(to);
    launch<scale_kernel<From, To>>(elementwise_launch(elements, 1), stream, op.matrix,
                                   cuda::elements<From>(op.from), cuda::elements<To>(op.to), elements,
                                   op.scale);
  });
}

}  // namespace tidepool
