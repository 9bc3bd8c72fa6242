#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/soft_cap.h"

namespace tidepool {
namespace cuda {
namespace {

__global__ void __launch_bounds__(256) soft_cap_kernel(float* x, float cap, u64 n) {
  for (u64 i = grid_thread(); i < n; i += grid_threads()) x[i] = capped<float>(x[i], cap, 1 / cap).value;
}

}  // namespace
}  // namespace cuda

void soft_cap_cuda(const SoftCap& op, cudaStream_t stream) {
  if (op.elements == 0) return;
  cuda::launch<cuda::soft_cap_kernel>(cuda::elementwise_launch(op.elements, 1), stream, op.x, op.cap,
                                      op.elements);
}

}  // namespace tidepool
