#include "huggingface/jinja/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <clocale>
#include <cstring>
#include <cwctype>
#include <vector>

namespace tidepool::jinja {

namespace {

constexpr bool continues(char c) { return (static_cast<u8>(c) & 0xc0) == 0x80; }

struct Run {
  u32 first, last;
};

// Code points whose numeric type is Decimal or Digit in Unicode 14; the C library only knows 0 to 9.
constexpr std::array digit_runs = std::to_array<Run>(
    {{0x30, 0x39},       {0xb2, 0xb3},       {0xb9, 0xb9},       {0x660, 0x669},     {0x6f0, 0x6f9},
     {0x7c0, 0x7c9},     {0x966, 0x96f},     {0x9e6, 0x9ef},     {0xa66, 0xa6f},     {0xae6, 0xaef},
     {0xb66, 0xb6f},     {0xbe6, 0xbef},     {0xc66, 0xc6f},     {0xce6, 0xcef},     {0xd66, 0xd6f},
     {0xde6, 0xdef},     {0xe50, 0xe59},     {0xed0, 0xed9},     {0xf20, 0xf29},     {0x1040, 0x1049},
     {0x1090, 0x1099},   {0x1369, 0x1371},   {0x17e0, 0x17e9},   {0x1810, 0x1819},   {0x1946, 0x194f},
     {0x19d0, 0x19da},   {0x1a80, 0x1a89},   {0x1a90, 0x1a99},   {0x1b50, 0x1b59},   {0x1bb0, 0x1bb9},
     {0x1c40, 0x1c49},   {0x1c50, 0x1c59},   {0x2070, 0x2070},   {0x2074, 0x2079},   {0x2080, 0x2089},
     {0x2460, 0x2468},   {0x2474, 0x247c},   {0x2488, 0x2490},   {0x24ea, 0x24ea},   {0x24f5, 0x24fd},
     {0x24ff, 0x24ff},   {0x2776, 0x277e},   {0x2780, 0x2788},   {0x278a, 0x2792},   {0xa620, 0xa629},
     {0xa8d0, 0xa8d9},   {0xa900, 0xa909},   {0xa9d0, 0xa9d9},   {0xa9f0, 0xa9f9},   {0xaa50, 0xaa59},
     {0xabf0, 0xabf9},   {0xff10, 0xff19},   {0x104a0, 0x104a9}, {0x10a40, 0x10a43}, {0x10d30, 0x10d39},
     {0x10e60, 0x10e68}, {0x11052, 0x1105a}, {0x11066, 0x1106f}, {0x110f0, 0x110f9}, {0x11136, 0x1113f},
     {0x111d0, 0x111d9}, {0x112f0, 0x112f9}, {0x11450, 0x11459}, {0x114d0, 0x114d9}, {0x11650, 0x11659},
     {0x116c0, 0x116c9}, {0x11730, 0x11739}, {0x118e0, 0x118e9}, {0x11950, 0x11959}, {0x11c50, 0x11c59},
     {0x11d50, 0x11d59}, {0x11da0, 0x11da9}, {0x16a60, 0x16a69}, {0x16ac0, 0x16ac9}, {0x16b50, 0x16b59},
     {0x1d7ce, 0x1d7ff}, {0x1e140, 0x1e149}, {0x1e2f0, 0x1e2f9}, {0x1e950, 0x1e959}, {0x1f100, 0x1f10a},
     {0x1fbf0, 0x1fbf9}});

// A locale of glibc that always knows Unicode: the process's own locale may be anything.
locale_t unicode_locale() {
  static const locale_t locale = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  return locale;
}

template <class A, class F>
std::string map_code_points(std::string_view text, A&& map_ascii, F&& map) {
  std::string out;
  out.reserve(text.size());
  for (u64 at = 0; at < text.size();) {
    u32 bytes = 1;
    const u32 c = code_point_at(text, at, &bytes);
    append_code_point(out, c < 0x80 ? map_ascii(c) : map(c));
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

bool is_digit(u32 c) {
  const auto after = std::ranges::upper_bound(digit_runs, c, {}, &Run::first);
  return after != digit_runs.begin() && c <= std::prev(after)->last;
}

bool is_printable(u32 c) {
  if (c < 0x7f) return c >= 0x20;
  switch (::utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    default:
      return true;
  }
}

std::string_view strip(std::string_view text, Sides sides) { return strip_where(text, sides, is_space); }

std::string_view strip(std::string_view text, std::string_view characters, Sides sides) {
  std::vector<u32> goes;
  u32 bytes = 1;
  for (u64 at = 0; at < characters.size(); at += bytes) goes.push_back(code_point_at(characters, at, &bytes));
  std::ranges::sort(goes);
  return strip_where(text, sides, [&](u32 c) { return std::ranges::binary_search(goes, c); });
}

u64 find_text(std::string_view text, std::string_view part, u64 from) {
  if (part.empty()) return from;
  const void* found = ::memmem(text.data() + from, text.size() - from, part.data(), part.size());
  return found ? static_cast<u64>(static_cast<const char*>(found) - text.data()) : text.npos;
}

// Knuth, Morris and Pratt from the end: linear time, whatever repeats in the text.
u64 find_text_last(std::string_view text, std::string_view part) {
  if (part.empty()) return text.size();
  std::vector<u64> border(part.size() + 1, 0);
  const auto back = [](std::string_view of, u64 i) { return of[of.size() - 1 - i]; };
  const auto follow = [&](u64 matched, char c) {
    while (matched > 0 && back(part, matched) != c) matched = border[matched];
    return back(part, matched) == c ? matched + 1 : 0;
  };
  for (u64 i = 1; i < part.size(); ++i) border[i + 1] = follow(border[i], back(part, i));
  u64 matched = 0;
  for (u64 i = 0; i < text.size(); ++i) {
    matched = follow(matched, back(text, i));
    if (matched == part.size()) return text.size() - 1 - i;
  }
  return text.npos;
}

std::string upper(std::string_view text) {
  constexpr std::string_view sharp_s = "\xc3\x9f";
  std::string out = map_code_points(
      text, [](u32 c) { return c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c; },
      [](u32 c) { return static_cast<u32>(::towupper_l(static_cast<wint_t>(c), unicode_locale())); });
  for (u64 at = out.find(sharp_s); at != out.npos; at = out.find(sharp_s, at))
    out.replace(at, sharp_s.size(), "SS");
  return out;
}
std::string lower(std::string_view text) {
  return map_code_points(
      text, [](u32 c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; },
      [](u32 c) { return static_cast<u32>(::towlower_l(static_cast<wint_t>(c), unicode_locale())); });
}
bool is_letter(u32 c) {
  const auto category = ::utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}
bool is_decimal(u32 c) {
  return ::utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_ND;
}
bool is_number(u32 c) {
  const auto category = ::utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}
bool is_upper(u32 c) { return ::utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_LU; }
bool is_lower(u32 c) { return ::utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_LL; }

}  // namespace tidepool::jinja
