#include "kernels/cuda/launch.h"

#include <fmt/format.h>

#include <vector>

#include "base/check.h"
#include "kernels/cuda/cuda_error.h"

namespace tidepool::cuda {
namespace {

// Constructed on the first call: kernels are listed before main(), in any order of files.
std::vector<const void*>& list() {
  static std::vector<const void*> kernels;
  return kernels;
}

}  // namespace

void check_launch(cudaError_t error, const LaunchShape& shape) {
  const bool refused = error == cudaErrorInvalidConfiguration || error == cudaErrorInvalidValue ||
                       error == cudaErrorLaunchOutOfResources;
  CHECK(!refused, cudaGetErrorName(error), shape.grid.x, shape.grid.y, shape.grid.z, shape.block.x,
        shape.block.y, shape.block.z, shape.shared_bytes);
}

bool list_kernel(const void* kernel) {
  list().push_back(kernel);
  return true;
}

std::span<const void* const> listed_kernels() { return list(); }

// Asking for a kernel's attributes loads it (CUDA C++ Programming Guide, lazy loading).
Result<void> load_kernels() {
  for (const void* const kernel : list()) {
    cudaFuncAttributes attributes = {};
    TRY_CUDA(cudaFuncGetAttributes(&attributes, kernel), fmt::format("loading {} kernels", list().size()));
  }
  return {};
}

}  // namespace tidepool::cuda
