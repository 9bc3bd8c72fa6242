// Text as Python's str sees it: a row of code points. Everything here takes valid UTF-8.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/types.h"

namespace tidepool::jinja {

u64 count_code_points(std::string_view text);
// The byte at which code point `at` begins; text.size() if there are not as many.
u64 byte_of_code_point(std::string_view text, u64 at);

bool is_space(u32 code_point);  // str.isspace()
bool is_digit(u32 code_point);  // str.isdigit(): superscripts and digits in circles too
// The code point at `text[at]`, and its bytes. REQUIRES: at < text.size().
u32 code_point_at(std::string_view text, u64 at, u32* bytes);
// Where the last one begins. REQUIRES: not empty.
u64 last_code_point(std::string_view text);
void append_code_point(std::string& out, u32 code_point);

// `from_begin`, `from_end`: which sides. Without `characters`: white space.
struct Sides {
  bool begin = true, end = true;
};
std::string_view strip(std::string_view text, Sides = {});
std::string_view strip(std::string_view text, std::string_view characters, Sides = {});

// By the C library's tables, so one code point for one, but for the sharp s. Python knows some eighty more
// that become several, all of them ligatures and letters with rare marks.
std::string upper(std::string_view text);
std::string lower(std::string_view text);
bool is_letter(u32 code_point);

}  // namespace tidepool::jinja
