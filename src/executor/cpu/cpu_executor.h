// create_cpu_executor makes a TrainingExecutor on cores: device memory is an arena, copies are memory copies,
// the disk is real, and compute, updates, copies and checksums share one pool of cores.
//
// compute, h2d and d2h of each device, and comm have one thread each that drives the pool (these threads
// mostly sleep). All devices use the same cores.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "executor/shared/training_executor.h"
#include "kernels/kernels.h"

namespace tidepool {

struct CpuLaneDevice {
  Kernels* kernels = nullptr;
  std::span<std::byte> arena;  // plan.tiers[].planned_peak bytes; page-aligned
};

// REQUIRES: all arguments outlive the executor.
// Errors: the disk does not open.
Result<std::unique_ptr<TrainingExecutor>> create_cpu_executor(const Plan&, const ModelGraph&, CorePool&,
                                                              const std::vector<CpuLaneDevice>&,
                                                              const ExecutorRequest&);

}  // namespace tidepool
