// StatusLine shows on stderr what a command is doing while it takes time.
#pragma once

#include <string>
#include <string_view>

#include "report/screen.h"

namespace tidepool {

// On a terminal the line is rewritten; elsewhere each new activity gets a plain line.
class StatusLine {
 public:
  StatusLine() : screen_(detect_screen(2)) {}
  ~StatusLine() { clear(); }
  StatusLine(const StatusLine&) = delete;

  // `what` names the activity. A terminal shows `line` if it is wide enough, else as much of `what` as fits.
  // A pipe gets `plain`, once per `what`.
  void show(std::string_view what, const std::string& line, const std::string& plain);
  void clear();
  const Screen& screen() const { return screen_; }

 private:
  Screen screen_;
  std::string said_;
  bool visible_ = false;
};

}  // namespace tidepool
