#include "report/status_line.h"

#include <unistd.h>

#include <string>

#include "report/print_text.h"

namespace tidepool {

void StatusLine::show(std::string_view what, const std::string& line, const std::string& plain) {
  if (!screen_.tty) {
    if (what != said_) print_text(stderr, "{}\n", plain);
    said_ = what;
    return;
  }
  renew_size(screen_, STDERR_FILENO);
  const bool fits = display_width(line) < screen_.columns;
  const std::string shown = text_to_show(fits ? line : what.substr(0, screen_.columns - 1));
  draw_picture(stderr, rewritable_lines({shown}));
  visible_ = true;
}

void StatusLine::clear() {
  if (visible_) draw_picture(stderr, "");
  visible_ = false;
}

}  // namespace tidepool
