// GpuHeadroom estimates the GPU memory taken outside a run's arena. It is required to be free before the
// first step, because a step that runs out of memory has trained for nothing. Needs no CUDA: plans for GPUs
// are also made on machines without it.
#pragma once

#include <string>

#include "base/types.h"

namespace tidepool {

// Assumed size of a CUDA context: with CUDA 12 and 13, data center cards take 300 to 500 MiB.
inline constexpr Bytes gpu_context{512 * mib};

// Memory that a GPU takes after its context is made and before the second step.
struct GpuHeadroom {
  Bytes page_tables{};  // 8 bytes per 4 KiB page of pinned memory, on every GPU that maps it
  Bytes exchange{};     // NCCL's buffers, between several devices
  Bytes modules{};      // kernels, loaded before the first step

  Bytes total() const { return page_tables + exchange + modules; }
};
inline constexpr u64 gpu_page_bytes = 4 * kib, gpu_page_entry_bytes = 8;

constexpr GpuHeadroom gpu_headroom(Bytes pinned, u32 devices) {
  // Assumed: 24 channels, to and from two neighbours, with 4 MiB (NCCL_BUFFSIZE) and half of that for the
  // protocols of short messages: 24 x 2 x 6 MiB, less the share that rings do not use.
  constexpr Bytes exchange{256 * mib};
  // Assumed: our kernels, cuDNN's, and cuBLASLt's for about twenty shapes of a run: up to eight kernels per
  // shape while they are timed, which the driver keeps, though many shapes share a kernel.
  constexpr Bytes modules{128 * mib};
  return {.page_tables = Bytes{div_up(pinned.value, gpu_page_bytes) * gpu_page_entry_bytes},
          .exchange = devices > 1 ? exchange : Bytes{0},
          .modules = modules};
}

// RETURNS: the pinned memory that page tables of this size can map.
constexpr Bytes pinned_within(Bytes page_tables) {
  return Bytes{page_tables.value / gpu_page_entry_bytes * gpu_page_bytes};
}

// Text for people: "0.83 GiB beside it (page tables of 232.00 GiB of pinned memory 0.45, NCCL 0.25, kernels
// 0.12)".
std::string headroom_text(const GpuHeadroom&, Bytes pinned);

}  // namespace tidepool
