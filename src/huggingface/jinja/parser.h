// Tokens into a tree.
#pragma once

#include <string_view>

#include "base/result.h"
#include "huggingface/jinja/syntax.h"

namespace tidepool::jinja {

struct Program {
  Block body;
  bool has_generation = false;
};

// Error: ErrorKind::bad_input, "LINE: reason"; what is Jinja but outside of the subset is told apart from
// nonsense.
Result<Program> parse_template(std::string_view source);

}  // namespace tidepool::jinja
