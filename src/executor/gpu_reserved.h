// What a GPU's memory holds beside a plan's frames. Needs no CUDA: plans for GPUs are made without one.
#pragma once

#include "tidepool/model_graph.h"

namespace tidepool {

// Chunk sets of which a GPU can know which elements decay.
inline constexpr u64 gpu_chunk_sets_max = 64 * kib;

// Enough that the start of an exchange does not show: at 300 GB/s it is filled in 0.2 ms.
inline constexpr Bytes gpu_staging_max{64 * mib};

// For CUDA graphs of short ops: the driver takes about 10 KiB a node, and 2 MiB at a time. A layer is 35 to
// 40 nodes, so 8 MiB hold those of some 20 layers.
inline constexpr Bytes gpu_graphs_max{8 * mib};

struct GpuReserved {
  Bytes kernels{};  // workspaces of matrix products and of attention
  Bytes numbers{};  // losses, norm partials, what decays
  Bytes staging{};  // of several devices: parts of sums that come from the others
  Bytes graphs{};   // of ops; taken by the driver, so no part of the arena. None where all ops are long

  Bytes in_arena() const { return kernels + numbers + staging; }  // whole pages each
  Bytes total() const { return in_arena() + graphs; }
};
// Of each device, at most, whatever the plan. `micro_batches`: per step, of all devices.
GpuReserved gpu_reserved(const ModelGraph&, u32 micro_batches, u32 devices = 1);

}  // namespace tidepool
