// Text as Python's str sees it: a sequence of code points.
// REQUIRES: all text is valid UTF-8.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/types.h"

namespace tidepool::jinja {

u64 count_code_points(std::string_view text);
// RETURNS: the byte at which code point `at` begins; text.size() if the text is shorter.
u64 byte_of_code_point(std::string_view text, u64 at);

bool is_space(u32 code_point);  // str.isspace()
bool is_digit(u32 code_point);  // str.isdigit(): also superscripts and circled digits
// str.isprintable(): letters, marks, numbers, punctuation, symbols and the space of ASCII. Characters that
// came after the Unicode version of utf8proc (14 in 2.8) are none of them.
bool is_printable(u32 code_point);
// RETURNS: the code point at `text[at]`; `bytes` gets its length.
// REQUIRES: at < text.size().
u32 code_point_at(std::string_view text, u64 at, u32* bytes);
// RETURNS: the byte at which the last code point begins.
// REQUIRES: not empty.
u64 last_code_point(std::string_view text);
void append_code_point(std::string& out, u32 code_point);

// Sides to strip. Without `characters`, white space is stripped.
struct Sides {
  bool begin = true, end = true;
};
std::string_view strip(std::string_view text, Sides = {});
std::string_view strip(std::string_view text, std::string_view characters, Sides = {});

// Search in linear time. RETURNS: npos if there is no such part.
u64 find_text(std::string_view text, std::string_view part, u64 from = 0);
u64 find_text_last(std::string_view text, std::string_view part);

// Case mapping by the C library's tables: one code point for one, except the sharp s. Python knows about
// eighty more that become several, all of them ligatures and letters with rare marks.
std::string upper(std::string_view text);
std::string lower(std::string_view text);
bool is_letter(u32 code_point);   // str.isalpha()
bool is_decimal(u32 code_point);  // str.isdecimal()
bool is_number(u32 code_point);   // decimals, letter numbers and others such as fractions
bool is_upper(u32 code_point);
bool is_lower(u32 code_point);

}  // namespace tidepool::jinja
