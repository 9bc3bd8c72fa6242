#include "kernels/cuda/launch.h"

#include "kernels/cuda/dispatch.h"
#include "tidepool/check.h"

namespace tidepool::cuda {

void check_launch(cudaError_t error, const LaunchShape& shape) {
  const bool refused = error == cudaErrorInvalidConfiguration || error == cudaErrorInvalidValue ||
                       error == cudaErrorLaunchOutOfResources;
  CHECK(!refused, cudaGetErrorName(error), shape.grid.x, shape.grid.y, shape.grid.z, shape.block.x, shape.block.y,
        shape.block.z, shape.shared_bytes);
}

void check_same_precision(std::initializer_list<ConstValues> arrays) {
  const ConstValues* first = nullptr;
  for (const ConstValues& array : arrays) {
    if (!array) continue;
    if (first == nullptr) first = &array;
    CHECK(array.precision == first->precision);
  }
}

}  // namespace tidepool::cuda
