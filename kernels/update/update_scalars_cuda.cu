// A step's scalars on the device that has the norm, with the host's bits.
#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/cuda/launch.h"

namespace tidepool {
namespace cuda {
namespace {

__global__ void scalars_kernel(UpdateStep step, const StepResult* result, UpdateScalars* scalars) {
  *scalars = update_scalars(step, result == nullptr ? StepResult{} : *result);
}

__global__ void put_scalars_kernel(UpdateScalars scalars, UpdateScalars* to) { *to = scalars; }

}  // namespace
}  // namespace cuda

void update_scalars_cuda(const UpdateStep& step, const StepResult* result, UpdateScalars* scalars,
                         cudaStream_t stream) {
  cuda::launch<cuda::scalars_kernel>({}, stream, step, result, scalars);
}

void put_update_scalars_cuda(const UpdateScalars& scalars, UpdateScalars* to, cudaStream_t stream) {
  cuda::launch<cuda::put_scalars_kernel>({}, stream, scalars, to);
}

}  // namespace tidepool
