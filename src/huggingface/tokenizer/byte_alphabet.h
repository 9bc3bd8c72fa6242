// The 256 characters that stand for bytes in byte-level vocabularies: printable Latin-1 stands for itself,
// the rest is U+0100 and following in order of bytes. From GPT-2's encoder (Radford et al. 2019).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/types.h"

namespace tidepool {

u32 character_of_byte(u8 byte);
std::optional<u8> byte_of_character(u32 character);

// Every byte as its character.
void append_as_characters(std::string& out, std::string_view bytes);
// The bytes that a spelling stands for; nothing if it holds a character that is none of the 256.
std::optional<std::string> spelled_bytes(std::string_view spelling);

}  // namespace tidepool
