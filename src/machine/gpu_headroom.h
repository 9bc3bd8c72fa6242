// Memory of a GPU that is taken outside a run's arena: demanded before the first step, because a step that
// runs out of memory has trained for nothing. Needs no CUDA: plans for GPUs are made without one.
#pragma once

#include <string>

#include "base/types.h"

namespace tidepool {

// Assumed: contexts of CUDA 12 and 13 on data center cards take 300 to 500 MiB.
inline constexpr Bytes gpu_context{512 * mib};

// Memory that a GPU takes after its context and before the second step.
struct GpuHeadroom {
  Bytes page_tables{};  // 8 bytes for each page of 4 KiB of pinned memory, on every GPU that reaches it
  Bytes exchange{};     // NCCL's buffers, between several devices
  Bytes modules{};      // kernels, which are loaded before the first step

  Bytes total() const { return page_tables + exchange + modules; }
};
inline constexpr u64 gpu_page_bytes = 4 * kib, gpu_page_entry_bytes = 8;

constexpr GpuHeadroom gpu_headroom(Bytes pinned, u32 devices) {
  // Assumed: 24 channels, to and from two neighbours, with 4 MiB (NCCL_BUFFSIZE) and half of that for its
  // protocols of short messages: 24 x 2 x 6 MiB, less what rings do not use.
  constexpr Bytes exchange{256 * mib};
  // Assumed: ours, cuDNN's, and cuBLASLt's for a run's some twenty shapes: up to eight for each while they
  // are timed, which the driver keeps, though many shapes share one.
  constexpr Bytes modules{128 * mib};
  return {.page_tables = Bytes{div_up(pinned.value, gpu_page_bytes) * gpu_page_entry_bytes},
          .exchange = devices > 1 ? exchange : Bytes{0},
          .modules = modules};
}

// Pinned memory that page tables of so many bytes reach.
constexpr Bytes pinned_within(Bytes page_tables) {
  return Bytes{page_tables.value / gpu_page_entry_bytes * gpu_page_bytes};
}

// "0.83 GiB beside it (page tables of 232.00 GiB of pinned memory 0.45, NCCL 0.25, kernels 0.12)".
std::string headroom_text(const GpuHeadroom&, Bytes pinned);

}  // namespace tidepool
