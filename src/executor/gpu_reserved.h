// What a GPU's memory holds beside a plan's frames. Needs no CUDA: plans for GPUs are made without one.
#pragma once

#include "tidepool/model_graph.h"

namespace tidepool {

// Chunk sets of which a GPU can know which elements decay.
inline constexpr u64 gpu_chunk_sets_max = 64 * kib;

struct GpuReserved {
  Bytes kernels{};  // workspaces of matrix products
  Bytes numbers{};  // losses, norm partials, what decays

  Bytes total() const { return kernels + numbers; }  // whole pages each
};
// At most, whatever the plan. `micro_batches`: per step.
GpuReserved gpu_reserved(const ModelGraph&, u32 micro_batches);

}  // namespace tidepool
