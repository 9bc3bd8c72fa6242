// Table of characters that Unicode 15, 15.1 and 16 added. Hugging Face's tokenizers know Unicode 16; PCRE2
// and utf8proc of Debian 12 and Ubuntu 24.04 know only 14 and 15.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/types.h"

namespace tidepool {

// RETURNS: the newer characters of a general category ("Lu") or group of categories ("L"), as the inside of a
// PCRE2 character class: "\x{870}-\x{887}..."; empty for any other name.
std::string newer_characters(std::string_view category);

bool is_newer(u32 character);
// RETURNS: the first newer character from `first` to `last`.
std::optional<u32> find_newer(u32 first, u32 last);
bool is_newer_number(u32 character);

}  // namespace tidepool
