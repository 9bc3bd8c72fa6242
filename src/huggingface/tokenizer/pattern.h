// The patterns of a tokenizer.json are written for Oniguruma with Ruby's syntax. Here they are said again for
// PCRE2, with the same meaning: what could mean anything else is refused by name.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace tidepool {

struct Pattern {
  std::string text;           // for PCRE2 with UTF, UCP, MULTILINE and LF as the newline
  bool looks_behind = false;  // whether a match depends on what stands before it
};

// Inside a class: \w of Rust's regular expressions, which Hugging Face's own rules are written in.
inline constexpr std::string_view rust_word = R"(\w\x{200c}\x{200d})";

// The error's message is a reason without a place: "\\b is not supported".
Result<Pattern> translate_pattern(std::string_view oniguruma);

}  // namespace tidepool
