#include "machine/gpu_headroom.h"

#include <fmt/format.h>

namespace tidepool {

std::string headroom_text(const GpuHeadroom& headroom, Bytes pinned) {
  const auto in_gib = [](Bytes bytes) {
    return fmt::format("{:.2f}", static_cast<double>(bytes.value) / static_cast<double>(gib));
  };
  std::string out = in_gib(headroom.total()) + " GiB beside it (";
  if (pinned.value > 0)
    out += fmt::format("page tables of {} GiB of pinned memory {}, ", in_gib(pinned),
                       in_gib(headroom.page_tables));
  if (headroom.exchange.value > 0) out += fmt::format("NCCL {}, ", in_gib(headroom.exchange));
  return out + fmt::format("kernels {})", in_gib(headroom.modules));
}

}  // namespace tidepool
