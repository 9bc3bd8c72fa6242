// Wraps errors and warnings into lines of the terminal's width.
#pragma once

#include <string>
#include <string_view>

#include "report/screen.h"

namespace tidepool {

// Breaks `message` into lines as wide as the terminal; lines after the first are indented by two columns.
// Breaks only at blanks, and never within a path, a KEY=VALUE or 'quoted words', nor between a number and its
// unit: text that a user may copy stays in one piece, even if it is wider than the terminal. If the output is
// no terminal, the message is one line, because it is searched and collected there.
std::string error_text(std::string_view message, const Screen&);

}  // namespace tidepool
