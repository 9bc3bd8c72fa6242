// Checks that a stream of bytes is UTF-8 (RFC 3629: no overlong forms, no surrogates, at most
// U+10FFFF), piece by piece, in constant memory.
#pragma once

#include <optional>
#include <span>

#include "base/types.h"

namespace tidepool {

class Utf8Checker {
 public:
  // The offset of the first byte that cannot be, counted from the start of the stream; call no more
  // after one was returned.
  std::optional<u64> feed(std::span<const std::byte> piece);

  // The offset of a character that the end of the stream cut off.
  std::optional<u64> finish() const;

 private:
  std::optional<u64> step(u8 byte);

  u64 offset_ = 0;
  u64 character_ = 0;  // where the current character began
  u32 pending_ = 0;    // bytes it still wants
  u8 least_ = 0x80;    // bounds of the next byte
  u8 most_ = 0xbf;
};

}  // namespace tidepool
