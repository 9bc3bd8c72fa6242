// What a GPU's memory holds beside a plan's frames. Needs no CUDA: plans for GPUs are made without one.
#pragma once

#include "tidepool/model_graph.h"

namespace tidepool {

// Chunk sets of which a GPU can know which elements decay.
inline constexpr u64 gpu_chunk_sets_max = 64 * kib;

// Enough that the start of an exchange does not show: at 300 GB/s it is filled in 0.2 ms.
inline constexpr Bytes gpu_staging_max{64 * mib};

struct GpuReserved {
  Bytes kernels{};  // workspaces of matrix products
  Bytes numbers{};  // losses, norm partials, what decays
  Bytes staging{};  // of several devices: parts of sums that come from the others

  Bytes total() const { return kernels + numbers + staging; }  // whole pages each
};
// Of each device, at most, whatever the plan. `micro_batches`: per step, of all devices.
GpuReserved gpu_reserved(const ModelGraph&, u32 micro_batches, u32 devices = 1);

}  // namespace tidepool
