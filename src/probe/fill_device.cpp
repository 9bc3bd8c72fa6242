#include "probe/fill_device.h"

#include <algorithm>

#include "base/check.h"
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

// Waits after each piece: the next takes its place in the host.
Result<void> bring_to_device(Device& device, std::span<std::byte> memory, std::span<const std::byte> bytes) {
  CHECK(memory.size() == bytes.size(), memory.size(), bytes.size());
  const std::span<std::byte> host = device.host_memory();
  for (u64 at = 0; at < bytes.size();) {
    const u64 piece = std::min<u64>(host.size(), bytes.size() - at);
    std::ranges::copy(bytes.subspan(at, piece), host.begin());
    device.copy_h2d(memory.subspan(at, piece), host.first(piece));
    TRY(device.wait());
    at += piece;
  }
  return {};
}

}  // namespace tidepool
