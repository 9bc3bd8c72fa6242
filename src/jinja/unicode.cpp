#include "jinja/unicode.h"

#include <clocale>
#include <cwctype>

namespace tidepool::jinja {

namespace {

constexpr bool continues(char c) { return (static_cast<u8>(c) & 0xc0) == 0x80; }

// The process's locale may be anything; this one is part of glibc.
locale_t unicode_locale() {
  static const locale_t locale = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  return locale;
}

template <class F>
std::string map_code_points(std::string_view text, F&& map) {
  std::string out;
  out.reserve(text.size());
  for (u64 at = 0; at < text.size();) {
    u32 bytes = 1;
    const u32 c = code_point_at(text, at, &bytes);
    append_code_point(out, map(c));
    at += bytes;
  }
  return out;
}

template <class F>
std::string_view strip_where(std::string_view text, Sides sides, F&& goes) {
  u32 bytes = 1;
  while (sides.begin && !text.empty() && goes(code_point_at(text, 0, &bytes))) text.remove_prefix(bytes);
  while (sides.end && !text.empty() && goes(code_point_at(text, last_code_point(text), &bytes)))
    text.remove_suffix(text.size() - last_code_point(text));
  return text;
}

}  // namespace

u64 last_code_point(std::string_view text) {
  u64 at = text.size() - 1;
  while (at > 0 && continues(text[at])) --at;
  return at;
}

u64 count_code_points(std::string_view text) {
  u64 count = 0;
  for (const char c : text) count += !continues(c);
  return count;
}

u64 byte_of_code_point(std::string_view text, u64 at) {
  u64 byte = 0;
  while (byte < text.size()) {
    if (!continues(text[byte]) && at-- == 0) return byte;
    ++byte;
  }
  return text.size();
}

u32 code_point_at(std::string_view text, u64 at, u32* bytes) {
  const u8 first = static_cast<u8>(text[at]);
  u32 length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (at + length > text.size()) length = 1;
  u32 c = length == 1 ? first : first & (0x7f >> length);
  for (u32 i = 1; i < length; ++i) c = c << 6 | (static_cast<u8>(text[at + i]) & 0x3f);
  *bytes = length;
  return c;
}

void append_code_point(std::string& out, u32 c) {
  const auto add = [&](u32 byte) { out += static_cast<char>(byte); };
  if (c < 0x80) {
    add(c);
  } else if (c < 0x800) {
    add(0xc0 | c >> 6);
    add(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    add(0xe0 | c >> 12);
    add(0x80 | (c >> 6 & 0x3f));
    add(0x80 | (c & 0x3f));
  } else {
    add(0xf0 | c >> 18);
    add(0x80 | (c >> 12 & 0x3f));
    add(0x80 | (c >> 6 & 0x3f));
    add(0x80 | (c & 0x3f));
  }
}

bool is_space(u32 c) {
  if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x1f);
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
         c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

std::string_view strip(std::string_view text, Sides sides) { return strip_where(text, sides, is_space); }

std::string_view strip(std::string_view text, std::string_view characters, Sides sides) {
  return strip_where(text, sides, [&](u32 c) {
    std::string one;
    append_code_point(one, c);
    return characters.find(one) != characters.npos;
  });
}

std::string upper(std::string_view text) {
  constexpr std::string_view sharp_s = "\xc3\x9f";
  std::string out = map_code_points(
      text, [](u32 c) { return static_cast<u32>(::towupper_l(static_cast<wint_t>(c), unicode_locale())); });
  for (u64 at = out.find(sharp_s); at != out.npos; at = out.find(sharp_s, at))
    out.replace(at, sharp_s.size(), "SS");
  return out;
}
std::string lower(std::string_view text) {
  return map_code_points(
      text, [](u32 c) { return static_cast<u32>(::towlower_l(static_cast<wint_t>(c), unicode_locale())); });
}
bool is_letter(u32 c) { return ::iswalpha_l(static_cast<wint_t>(c), unicode_locale()) != 0; }

}  // namespace tidepool::jinja
