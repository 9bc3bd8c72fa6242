#include "huggingface/tokenizer/byte_alphabet.h"

#include <array>

#include "huggingface/tokenizer/characters.h"

namespace tidepool {

namespace {

constexpr u32 first_substitute = 0x100;
constexpr u32 alphabet_end = first_substitute + 68;  // 68 bytes are not printable Latin-1

constexpr bool stands_for_itself(u32 byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

struct Alphabet {
  std::array<u16, 256> characters{};
  std::array<i32, alphabet_end> bytes{};  // -1: not in the alphabet
};

constexpr Alphabet make_alphabet() {
  Alphabet out;
  out.bytes.fill(-1);
  u32 next = first_substitute;
  for (u32 byte = 0; byte < 256; ++byte) {
    const u32 character = stands_for_itself(byte) ? byte : next++;
    out.characters[byte] = static_cast<u16>(character);
    out.bytes[character] = static_cast<i32>(byte);
  }
  return out;
}

constexpr Alphabet alphabet = make_alphabet();
static_assert(alphabet.characters[0xad] == alphabet_end - 1, "the last substitute is the soft hyphen's");

}  // namespace

u32 character_of_byte(u8 byte) { return alphabet.characters[byte]; }

std::optional<u8> byte_of_character(u32 character) {
  if (character >= alphabet_end || alphabet.bytes[character] < 0) return std::nullopt;
  return static_cast<u8>(alphabet.bytes[character]);
}

void append_as_characters(std::string& out, std::string_view bytes) {
  for (const char byte : bytes) append_character(out, character_of_byte(static_cast<u8>(byte)));
}

std::optional<std::string> spelled_bytes(std::string_view spelling) {
  std::string out;
  for (size_t at = 0; at < spelling.size(); at += character_bytes(spelling[at])) {
    const std::optional<u8> byte = byte_of_character(character_at(spelling, at));
    if (!byte) return std::nullopt;
    out += static_cast<char>(*byte);
  }
  return out;
}

}  // namespace tidepool
