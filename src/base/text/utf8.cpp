#include "base/text/utf8.h"

#include <fmt/format.h>

#include <algorithm>
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

namespace {

// True for a byte order mark, and for a first character of ASCII in two bytes.
bool begins_as_utf16(std::string_view text) {
  return text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff") ||
         text.substr(0, 2).find('\0') != text.npos;
}

}  // namespace

Result<void> check_is_utf8(std::string_view path, std::string_view text, ErrorKind kind) {
  Utf8Checker checker;
  std::optional<u64> bad = checker.feed(std::as_bytes(std::span(text)));
  bad = bad ? checker.character(*bad) : checker.finish();
  const size_t zero = text.find('\0');
  if (!bad && zero == text.npos) return {};
  const u64 at = std::min<u64>(bad.value_or(zero), zero);
  if (begins_as_utf16(text))
    return Error{kind,
                 fmt::format("{}: is not UTF-8 text (byte {}; it looks like UTF-16); save the file as UTF-8",
                             path, at)};
  const auto line = std::ranges::count(text.substr(0, at), '\n') + 1;
  if (at == zero)
    return Error{kind,
                 fmt::format("{}:{}: holds a zero byte (NUL, byte {}), which text never does; remove it, or "
                             "write the file anew",
                             path, line, at)};
  return Error{kind,
               fmt::format("{}:{}: is not UTF-8 text (byte {}); save the file as UTF-8", path, line, at)};
}

}  // namespace tidepool
