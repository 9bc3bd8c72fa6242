// Every matrix product of a plan once before its run's first step: while nothing lies in a device's memory,
// algorithms can be timed where the products will really be, and what the library loads for them is loaded.
#pragma once

#include <span>

#include "executor/cuda/cuda_device.h"
#include "executor/shared/arenas.h"
#include "kernels/kernels.h"
#include "tidepool/model_graph.h"
#include "tidepool/plan.h"

namespace tidepool {

struct ProductTuningParts {
  const Plan& plan;
  const ModelGraph& graph;
  const TierMemory& memory;
  CudaDevice& device;            // the current one
  u32 number = 0;                // of the device, in the plan
  Kernels& kernels;              // CudaKernelsMade::tuning
  std::span<std::byte> staging;  // pinned host memory, for nobody else meanwhile
};

// Fills the device's frames with noise, as products of zeros take less power than those of a run, and goes
// through the plan's ops. Waits for the device. Errors: the library refuses a product, the device fails.
Result<void> tune_products(const ProductTuningParts&);

}  // namespace tidepool
