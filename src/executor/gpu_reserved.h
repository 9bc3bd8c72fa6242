// GpuReserved counts the GPU memory of a run beside the plan's frames. Needs no CUDA: plans for GPUs are also
// made on machines without it.
#pragma once

#include "tidepool/model_graph.h"

namespace tidepool {

// Limit of chunk sets for which a GPU stores which elements decay.
inline constexpr u64 gpu_chunk_sets_max = 64 * kib;

// Large enough to hide the start of an exchange: at 300 GB/s it is filled in 0.2 ms.
inline constexpr Bytes gpu_staging_max{64 * mib};

// For CUDA graphs of short ops. OpGraphs counts 16 KiB per node: about 10 KiB that the driver takes, and a
// margin. A layer has 35 to 40 nodes, 0.6 MiB, so 8 MiB hold the graphs of 13 layers for one
// micro-batch (docs/decisions/0028).
inline constexpr Bytes gpu_graphs_max{8 * mib};

struct GpuReserved {
  Bytes kernels{};  // workspaces of matrix products and of attention
  Bytes numbers{};  // losses, norm partials, decay segments, tokens per expert
  Bytes staging{};  // with several devices: parts of sums that other devices send
  Bytes graphs{};   // graphs of ops: the driver takes the memory, outside the arena. 0 if all ops are long

  Bytes in_arena() const { return kernels + numbers + staging; }  // whole pages each
  Bytes total() const { return in_arena() + graphs; }
};
// RETURNS: an upper bound per device for any plan. `micro_batches`: per step, of all devices.
GpuReserved gpu_reserved(const ModelGraph&, u32 micro_batches, u32 devices = 1);

}  // namespace tidepool
