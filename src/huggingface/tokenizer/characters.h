// Functions on characters of a text that is known to be UTF-8.
#pragma once

#include <string>
#include <string_view>

#include "base/types.h"

namespace tidepool {

// REQUIRES, for all functions here: valid UTF-8, `at` is the first byte of a character.

inline u32 character_bytes(char lead) {
  const u8 byte = static_cast<u8>(lead);
  return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

inline u32 character_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<u32>(static_cast<u8>(text[at + i])); };
  switch (character_bytes(text[at])) {
    case 1:
      return byte(0);
    case 2:
      return (byte(0) & 0x1f) << 6 | (byte(1) & 0x3f);
    case 3:
      return (byte(0) & 0x0f) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f);
    default:
      return (byte(0) & 0x07) << 18 | (byte(1) & 0x3f) << 12 | (byte(2) & 0x3f) << 6 | (byte(3) & 0x3f);
  }
}

// RETURNS: the first byte of the character that ends at `end`.
// REQUIRES: end > 0.
inline size_t character_before(std::string_view text, size_t end) {
  do --end;
  while ((static_cast<u8>(text[end]) & 0xc0) == 0x80);
  return end;
}

void append_character(std::string& out, u32 character);

// Unicode's property White_Space.
bool is_white_space(u32 character);
// General categories Nd, Nl, No.
bool is_numeric(u32 character);
// True if the text is exactly one character.
bool is_one_character(std::string_view text);

}  // namespace tidepool
