// What Unicode 15, 15.1 and 16 added to the general categories. Hugging Face's tokenizers know Unicode 16;
// PCRE2 and utf8proc of Debian 12 and Ubuntu 24.04 know 14 and 15.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/types.h"

namespace tidepool {

// Of a general category ("Lu") or a whole group ("L"), for the inside of a character class of PCRE2:
// "\x{870}-\x{887}...". Empty for anything else.
std::string newer_characters(std::string_view category);

bool is_newer(u32 character);
// The first of them from `first` to `last`.
std::optional<u32> find_newer(u32 first, u32 last);
bool is_newer_number(u32 character);

}  // namespace tidepool
