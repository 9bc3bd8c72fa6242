// Parser: turns tokens into a syntax tree.
#pragma once

#include <string_view>

#include "base/result.h"
#include "huggingface/jinja/syntax.h"

namespace tidepool::jinja {

struct Program {
  Block body;
  bool has_generation = false;
};

// Error: bad_input, "LINE: reason". Valid Jinja outside of the supported subset gets another message than a
// syntax error.
Result<Program> parse_template(std::string_view source);

}  // namespace tidepool::jinja
