// translate_pattern() rewrites a pattern for PCRE2. Patterns in tokenizer.json are written for Oniguruma with
// Ruby's syntax. The meaning stays the same; anything that could mean something else is refused by name.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace tidepool {

struct Pattern {
  std::string text;           // for PCRE2 with UTF, UCP, MULTILINE and LF as the newline
  bool looks_behind = false;  // true if a match depends on text before it
};

// \w of Rust's regular expressions, used by Hugging Face's own rules, as the inside of a character class.
inline constexpr std::string_view rust_word = R"(\w\x{200c}\x{200d})";

// Error: a reason without file name: "\\b is not supported".
Result<Pattern> translate_pattern(std::string_view oniguruma);

}  // namespace tidepool
