// tune_products() runs every matrix product of a plan once before the first step, while device memory holds
// nothing yet. So algorithms are timed at the products' real addresses, and the library loads its kernels
// now.
#pragma once

#include <span>

#include "executor/cuda/cuda_device.h"
#include "executor/lanes/tier_memory.h"
#include "kernels/kernels.h"
#include "tidepool/model_graph.h"
#include "tidepool/plan.h"

namespace tidepool {

struct ProductTuningParts {
  const Plan& plan;
  const ModelGraph& graph;
  const TierMemory& memory;
  CudaDevice& device;            // REQUIRES: the current device
  u32 number = 0;                // the device's number in the plan
  Kernels& kernels;              // CudaKernelsMade::tuning
  std::span<std::byte> staging;  // pinned host memory for exclusive use during the call
};

// Fills the device's frames with noise, because products of zeros take less power than the products of a run.
// Then runs the products of the plan's ops. Waits for the device.
// Errors: the library refuses a product, the device fails.
Result<void> tune_products(const ProductTuningParts&);

}  // namespace tidepool
