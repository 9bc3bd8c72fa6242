#include "probe/step/bring_numbers.h"

#include <algorithm>

#include "kernels/uniform_values.h"

namespace tidepool {

// Copies one piece of numbers repeatedly.
Result<void> bring_numbers(Session& session, std::span<std::byte> to, Precision precision, float scale) {
  constexpr u64 piece_bytes_max = 16 * mib;
  const std::span<std::byte> host = session.host_memory();
  const std::span<std::byte> piece = host.first(std::min({host.size(), to.size(), piece_bytes_max}));
  make_uniform(piece, precision, scale);
  for (u64 at = 0; at < to.size(); at += piece.size()) {
    const u64 bytes = std::min(piece.size(), to.size() - at);
    TRY(session.devices().copy({.to = to.subspan(at, bytes), .from = piece.first(bytes)}, {}));
  }
  return {};
}

}  // namespace tidepool
