// Errors and warnings as a terminal's lines.
#pragma once

#include <string>
#include <string_view>

#include "report/screen.h"

namespace tidepool {

// `message` in lines as wide as the terminal, later ones set in by two. It breaks at blanks, and never within
// a path, a KEY=VALUE, 'quoted words', or between a number and its unit: what can be copied stays in one
// piece, even where it is wider than the terminal. Off a terminal the message is one line: it is searched and
// collected there.
std::string error_text(std::string_view message, const Screen&);

}  // namespace tidepool
