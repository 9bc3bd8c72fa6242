#include "kernels/cuda/dispatch.h"
#include "kernels/cuda/gates.h"
#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/cuda/launch.h"

namespace tidepool {
namespace cuda {
namespace {

template <class Act, bool whole, class T>
__global__ void __launch_bounds__(256) activation_kernel(const T* x, T* y, u64 n) {
  for (u64 at = vector_elements * grid_thread(); at < n; at += vector_elements * grid_threads()) {
    float v[8];
    load8<whole>(x, at, n, v);
    for (float& value : v) value = Act::template value<T>(value);
    store8<whole>(y, at, n, v);
  }
}

template <class Act, bool whole, class T>
__global__ void __launch_bounds__(256)
    activation_backward_kernel(const T* x, const T* dy, T* dx, T* value, u64 n) {
  for (u64 at = vector_elements * grid_thread(); at < n; at += vector_elements * grid_threads()) {
    float v[8], gradient[8];
    load8<whole>(x, at, n, v);
    load8<whole>(dy, at, n, gradient);
    for (u32 i = 0; i < 8; ++i) {
      const Activated y = Act::template with_slope<T>(v[i]);
      v[i] = y.value;
      gradient[i] *= y.slope;
    }
    if (value != nullptr) store8<whole>(value, at, n, v);
    store8<whole>(dx, at, n, gradient);
  }
}

template <class Act>
void activate(ConstValues x, Values y, u64 n, cudaStream_t stream) {
  if (n == 0) return;
  check_same_precision({x, y});
  for_bool(rows_of_vectors(n, x, y), [&](auto whole) {
    for_precision(x.precision, [&](auto type) {
      using T = decltype(type);
      launch<activation_kernel<Act, whole.value, T>>(elementwise_launch(n, vector_elements), stream,
                                                     elements<T>(x), elements<T>(y), n);
    });
  });
}

template <class Act>
void activate_backward(ConstValues x, ConstValues dy, Values dx, Values value, u64 n, cudaStream_t stream) {
  if (n == 0) return;
  check_same_precision({x, dy, dx, value});
  for_bool(rows_of_vectors(n, x, dy, dx, value), [&](auto whole) {
    for_precision(x.precision, [&](auto type) {
      using T = decltype(type);
      launch<activation_backward_kernel<Act, whole.value, T>>(elementwise_launch(n, vector_elements), stream,
                                                              elements<T>(x), elements<T>(dy),
                                                              elements<T>(dx), elements<T>(value), n);
    });
  });
}

}  // namespace
}  // namespace cuda

void gelu_cuda(ConstValues x, Values y, u64 n, cudaStream_t stream) {
  cuda::activate<cuda::Gelu>(x, y, n, stream);
}

void gelu_backward_cuda(ConstValues x, ConstValues dy, Values dx, Values value, u64 n, cudaStream_t stream) {
  cuda::activate_backward<cuda::Gelu>(x, dy, dx, value, n, stream);
}

void squared_relu_cuda(ConstValues x, Values y, u64 n, cudaStream_t stream) {
  cuda::activate<cuda::SquaredRelu>(x, y, n, stream);
}

void squared_relu_backward_cuda(ConstValues x, ConstValues dy, Values dx, Values value, u64 n,
                                cudaStream_t stream) {
  cuda::activate_backward<cuda::SquaredRelu>(x, dy, dx, value, n, stream);
}

}  // namespace tidepool
