// A template's source as tokens. White space around tags goes as Jinja takes it with trim_blocks and
// lstrip_blocks, which is how chat templates are run: a block's own line leaves nothing behind.
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
  std::string text;  // of a literal what it stands for
  u32 line = 0;
};

// The last token is `end`. Error: ErrorKind::bad_input, "LINE: reason".
Result<std::vector<Token>> tokenize_template(std::string_view source);

}  // namespace tidepool::jinja
