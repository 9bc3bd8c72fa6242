// Utf8Checker checks that a stream of bytes is UTF-8 (RFC 3629: no overlong forms, no surrogates, at most
// U+10FFFF), piece by piece, in constant memory.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "base/result.h"
#include "base/types.h"

namespace tidepool {

class Utf8Checker {
 public:
  // RETURNS: offset of the first invalid byte, counted from the start of the stream; none: valid so far.
  // REQUIRES: no earlier call returned an offset.
  std::optional<u64> feed(std::span<const std::byte> piece);

  // RETURNS: where the character begins that the byte at `bad`, a result of feed(), does not continue,
  // perhaps in an earlier piece; `bad` itself if it begins one. People look for that byte.
  u64 character(u64 bad) const { return pending_ > 0 ? character_ : bad; }

  // RETURNS: offset of a character that the end of the stream cuts off; none: the stream is complete.
  std::optional<u64> finish() const;

 private:
  std::optional<u64> step(u8 byte);

  u64 offset_ = 0;
  u64 character_ = 0;  // offset of the current character
  u32 pending_ = 0;    // bytes that the character still needs
  u8 least_ = 0x80;    // bounds of the next byte
  u8 most_ = 0xbf;
};

// Refuses text that is not UTF-8, or holds a zero byte: YAML ends there, or reads UTF-16 as an empty map.
// Error: `kind`, naming the file, the line, and the byte as what it is.
Result<void> check_is_utf8(std::string_view path, std::string_view text, ErrorKind kind);

}  // namespace tidepool
