// Scales values on the device. Memory is the bottleneck: each value is read and written once, 16 bytes at a
// time.
#include "kernels/cuda/device_param.h"
#include "kernels/cuda/dispatch.h"
#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/cuda/launch.h"

namespace tidepool {
namespace cuda {
namespace {

template <bool whole, class T>
__global__ void __launch_bounds__(256) scale_values_kernel(DeviceParam factor, T* x, u64 n) {
  const float by = factor.at(0);
  for (u64 at = vector_elements * grid_thread(); at < n; at += vector_elements * grid_threads()) {
    float v[8];
    load8<whole>(x, at, n, v);
    for (float& value : v) value *= by;
    store8<whole>(x, at, n, v);
  }
}

}  // namespace
}  // namespace cuda

void scale_values_cuda(const ScaleValues& op, cudaStream_t stream) {
  using namespace cuda;
  if (op.elements == 0) return;
  for_bool(rows_of_vectors(op.elements, op.x), [&](auto whole) {
    for_precision(op.x.precision, [&](auto type) {
      using T = decltype(type);
      launch<scale_values_kernel<whole.value, T>>(elementwise_launch(op.elements, vector_elements), stream,
                                                  DeviceParam{op.factor.data, op.factor.precision},
                                                  elements<T>(op.x), op.elements);
    });
  });
}

}  // namespace tidepool
