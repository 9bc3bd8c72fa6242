#include "probe/copies.h"

#include <algorithm>

namespace tidepool {

void issue_copies(Device& device, std::span<std::byte> memory, const CopyWork& work, CopyDirection way) {
  const std::span<std::byte> host = device.host_memory();
  for (u64 up = 0; up < work.bytes.value; up += work.piece.value) {
    const u64 bytes = std::min(work.piece.value, work.bytes.value - up), down = work.bytes.value + up;
    if (way != CopyDirection::d2h) device.copy_h2d(memory.subspan(up, bytes), host.subspan(up, bytes));
    if (way != CopyDirection::h2d) device.copy_d2h(host.subspan(down, bytes), memory.subspan(down, bytes));
  }
}

}  // namespace tidepool
