// Lexer: splits a template's source into tokens. Strips white space around tags as Jinja does with
// trim_blocks and lstrip_blocks, the settings for chat templates: a block tag on a line of its own prints
// nothing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace tidepool::jinja {

enum class TokenKind : u8 {
  text,  // between tags
  print_begin,
  print_end,
  block_begin,
  block_end,
  name,
  text_literal,
  integer,
  real,
  symbol,  // ( ) [ ] { } , : . | ~ = + - * / // % ** == != < > <= >=
  end,
};

struct Token {
  TokenKind kind{};
  std::string text;  // of a literal: its value
  u32 line = 0;
};

// RETURNS: tokens; the last is `end`.
// Error: bad_input, "LINE: reason".
Result<std::vector<Token>> tokenize_template(std::string_view source);

}  // namespace tidepool::jinja
