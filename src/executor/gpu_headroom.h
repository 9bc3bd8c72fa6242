// Memory of a GPU that is taken outside a run's arena: demanded before the first step, because a step that
// runs out of memory has trained for nothing. Needs no CUDA: plans for GPUs are made without one.
#pragma once

#include <string>

#include "tidepool/types.h"

namespace tidepool {

// Assumed: contexts of CUDA 12 and 13 on data center cards take 300 to 500 MiB.
inline constexpr Bytes gpu_context{512 * mib};

// What a GPU takes after its context and before the second step.
struct GpuHeadroom {
  Bytes page_tables{};  // of pinned memory: 8 bytes for each page of 4 KiB, on every GPU that reaches it
  Bytes exchange{};     // of several devices: NCCL's buffers
  Bytes modules{};      // kernels, which the driver loads at their first launch

  Bytes total() const { return page_tables + exchange + modules; }
};
constexpr GpuHeadroom gpu_headroom(Bytes pinned, u32 devices) {
  constexpr u64 page_bytes = 4 * kib, entry_bytes = 8;
  // Assumed: 24 channels, to and from two neighbours, with 4 MiB (NCCL_BUFFSIZE) and half of that for its
  // protocols of short messages: 24 x 2 x 6 MiB, less what rings do not use.
  constexpr Bytes exchange{256 * mib};
  // Assumed: ours, cuBLASLt's for a run's some twenty shapes, and cuDNN's.
  constexpr Bytes modules{128 * mib};
  return {.page_tables = Bytes{div_up(pinned.value, page_bytes) * entry_bytes},
          .exchange = devices > 1 ? exchange : Bytes{0},
          .modules = modules};
}

// "0.83 GiB beside it (page tables of 232 GiB of pinned memory 0.45, NCCL 0.25, kernels 0.13)".
std::string headroom_text(const GpuHeadroom&, Bytes pinned);

}  // namespace tidepool
