#include "base/text/utf8.h"

#include <cstring>

namespace tidepool {

// Checks one byte against RFC 3629's table: the lead byte says how many bytes follow, and bounds the first of
// them.
std::optional<u64> Utf8Checker::step(u8 byte) {
  if (pending_ > 0) {
    if (byte < least_ || byte > most_) return offset_;
    --pending_;
    least_ = 0x80;
    most_ = 0xbf;
    return std::nullopt;
  }
  if (byte < 0x80) return std::nullopt;
  if (byte < 0xc2 || byte > 0xf4) return offset_;
  character_ = offset_;
  pending_ = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
  least_ = byte == 0xe0 ? 0xa0 : byte == 0xf0 ? 0x90 : 0x80;
  most_ = byte == 0xed ? 0x9f : byte == 0xf4 ? 0x8f : 0xbf;
  return std::nullopt;
}

std::optional<u64> Utf8Checker::feed(std::span<const std::byte> piece) {
  size_t i = 0;
  while (i < piece.size()) {
    // Skips eight ASCII bytes at once: nearly all text is ASCII.
    u64 word = 0;
    if (pending_ == 0 && i + 8 <= piece.size()) {
      std::memcpy(&word, piece.data() + i, 8);
      if ((word & 0x8080'8080'8080'8080) == 0) {
        i += 8;
        offset_ += 8;
        continue;
      }
    }
    if (const auto bad = step(static_cast<u8>(piece[i]))) return bad;
    ++i;
    ++offset_;
  }
  return std::nullopt;
}

std::optional<u64> Utf8Checker::finish() const {
  return pending_ > 0 ? std::optional<u64>(character_) : std::nullopt;
}

}  // namespace tidepool
