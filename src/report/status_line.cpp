#include "report/status_line.h"

#include <fmt/format.h>

#include <cstdio>

namespace tidepool {

void StatusLine::show(std::string_view what, const std::string& line, const std::string& plain) {
  if (!screen_.tty) {
    if (what != said_) fmt::print(stderr, "{}\n", plain);
    said_ = what;
    return;
  }
  clear();
  // One column stays free: a terminal that is written to its last one wraps.
  const bool fits = display_width(line) < screen_.columns;
  fmt::print(stderr, "{}", fits ? line : what.substr(0, screen_.columns - 1));
  std::fflush(stderr);
  visible_ = true;
}

void StatusLine::clear() {
  if (visible_) fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  visible_ = false;
}

}  // namespace tidepool
