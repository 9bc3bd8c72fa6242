// Formats errors and warnings for a terminal.
#pragma once

#include <string>
#include <string_view>

#include "report/screen.h"

namespace tidepool {

// Wraps `message` to the terminal's width, with later lines indented by two. Breaks at blanks, but never
// within a path, a KEY=VALUE, 'quoted words', or between a number and its unit: text that users copy stays in
// one piece, even if it is wider than the terminal. If the output is not a terminal, the message is one line,
// so that it can be searched and collected.
std::string error_text(std::string_view message, const Screen&);

}  // namespace tidepool
