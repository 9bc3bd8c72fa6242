#include "probe/fill_device.h"

#include <algorithm>

#include "kernels/uniform_values.h"

namespace tidepool {

// Copies one piece of numbers repeatedly.
Result<void> fill_device(Device& device, std::span<std::byte> memory, Precision precision, float scale) {
  constexpr u64 piece_bytes_max = 16 * mib;
  const std::span<std::byte> host =
      device.host_memory().first(std::min({device.host_memory().size(), memory.size(), piece_bytes_max}));
  make_uniform(host, precision, scale);
  for (u64 at = 0; at < memory.size(); at += host.size()) {
    const u64 bytes = std::min(host.size(), memory.size() - at);
    device.copy_h2d(memory.subspan(at, bytes), host.first(bytes));
  }
  return device.wait();
}

}  // namespace tidepool
