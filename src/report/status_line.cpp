#include "report/status_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace tidepool {

void StatusLine::show(std::string_view what, const std::string& line, const std::string& plain) {
  if (!screen_.tty) {
    if (what != said_) fmt::print(stderr, "{}\n", plain);
    said_ = what;
    return;
  }
  renew_size(screen_, STDERR_FILENO);
  const bool fits = display_width(line) < screen_.columns;
  fmt::print(stderr, "{}",
             rewritable_lines({fits ? line : std::string(what.substr(0, screen_.columns - 1))}));
  std::fflush(stderr);
  visible_ = true;
}

void StatusLine::clear() {
  if (visible_) fmt::print(stderr, "{}", erase_lines);
  std::fflush(stderr);
  visible_ = false;
}

}  // namespace tidepool
