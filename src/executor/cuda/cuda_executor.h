// create_cuda_executor makes a TrainingExecutor on GPUs: compute, h2d and d2h are streams of a GPU, comm is a
// stream on each of several GPUs, and events on the devices order them. Updates in the host, batches and the
// disk use the same lanes as on cores.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "executor/cuda/collectives.h"
#include "executor/cuda/cuda_device.h"
#include "executor/shared/training_executor.h"
#include "kernels/kernels.h"

namespace tidepool {

struct CudaLaneDevice {
  CudaDevice* device = nullptr;
  Kernels* kernels = nullptr;    // on device->compute()
  Kernels* tuning = nullptr;     // CudaKernelsMade::tuning; may be null
  std::span<std::byte> numbers;  // device memory, size as gpu_reserved() says
};

// Parts of the lanes of GPUs.
// REQUIRES: all parts outlive the executor.
struct CudaLanesParts {
  std::vector<CudaLaneDevice> devices;
  Collectives* collectives = nullptr;  // null: one device
  Bytes graphs{};                      // memory of each device, beside its arena, for graphs of ops
};

// REQUIRES: all arguments outlive the executor; the host's arena is pinned.
// Errors: the disk does not open, or CUDA refuses.
Result<std::unique_ptr<TrainingExecutor>> create_cuda_executor(const Plan&, const ModelGraph&, CorePool&,
                                                               const CudaLanesParts&, const ExecutorRequest&);

}  // namespace tidepool
