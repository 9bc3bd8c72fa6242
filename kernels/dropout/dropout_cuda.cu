#include "kernels/cuda/dispatch.h"
#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/cuda/launch.h"
#include "kernels/dropout/philox_device.h"

namespace tidepool {
namespace cuda {
namespace {

template <bool whole, class T>
__global__ void dropout_kernel(DropoutRow row, const T* x, T* y, u64 n) {
  for (u64 at = vector_elements * grid_thread(); at < n; at += vector_elements * grid_threads()) {
    float v[8];
    load8<whole>(x, at, n, v);
    dropout8(row, at, v);
    store8<whole>(y, at, n, v);
  }
}

}  // namespace
}  // namespace cuda

void dropout_cuda(const Dropout& dropout, ConstValues x, Values y, u64 n, cudaStream_t stream) {
  using namespace cuda;
  if (n == 0) return;
  check_same_precision({x, y});
  for_bool(rows_of_vectors(n, x, y), [&](auto whole) {
    for_precision(x.precision, [&](auto type) {
      using T = decltype(type);
      launch<dropout_kernel<whole.value, T>>(elementwise_launch(n, vector_elements), stream,
                                             dropout_row_of(dropout), elements<T>(x), elements<T>(y), n);
    });
  });
}

}  // namespace tidepool
