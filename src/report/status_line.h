// Says on stderr what a command is busy with, for as long as it takes.
#pragma once

#include <string>
#include <string_view>

#include "report/screen.h"

namespace tidepool {

// A line that is rewritten on a terminal; elsewhere a plain line for each new thing that is done.
class StatusLine {
 public:
  StatusLine() : screen_(detect_screen(2)) {}
  ~StatusLine() { clear(); }
  StatusLine(const StatusLine&) = delete;

  // `what` names the thing that is done. A terminal shows `line` if it is wide enough, else what fits of
  // `what`; a pipe gets `plain`, once per `what`.
  void show(std::string_view what, const std::string& line, const std::string& plain);
  void clear();
  const Screen& screen() const { return screen_; }

 private:
  Screen screen_;
  std::string said_;
  bool visible_ = false;
};

}  // namespace tidepool
