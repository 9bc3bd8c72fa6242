#include "kernels/cuda/launch.h"

#include "tidepool/check.h"

namespace tidepool::cuda {

void check_launch(cudaError_t error, const LaunchShape& shape) {
  const bool refused = error == cudaErrorInvalidConfiguration || error == cudaErrorInvalidValue ||
                       error == cudaErrorLaunchOutOfResources;
  CHECK(!refused, cudaGetErrorName(error), shape.grid.x, shape.grid.y, shape.grid.z, shape.block.x,
        shape.block.y, shape.block.z, shape.shared_bytes);
}

}  // namespace tidepool::cuda
