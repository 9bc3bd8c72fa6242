// Byte alphabet: the 256 characters that stand for bytes in byte-level vocabularies. Printable Latin-1 stands
// for itself; the other bytes are U+0100 and following, in order. From GPT-2's encoder (Radford et al. 2019).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/types.h"

namespace tidepool {

u32 character_of_byte(u8 byte);
std::optional<u8> byte_of_character(u32 character);

// Appends each byte as its character.
void append_as_characters(std::string& out, std::string_view bytes);
// RETURNS: the bytes that a spelling stands for; none if it has a character outside of the alphabet.
std::optional<std::string> spelled_bytes(std::string_view spelling);

}  // namespace tidepool
