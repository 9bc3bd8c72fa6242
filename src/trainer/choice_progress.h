// That a plan is being chosen, or what to change where there is none: said where it takes longer than people
// wait in silence.
#pragma once

#include <string_view>

#include "report/status_line.h"
#include "tidepool/types.h"

namespace tidepool {

class ChoiceProgress {
 public:
  ChoiceProgress();
  // As PlanTried. Silent for the first second.
  void tried(u32 candidates, double best_step_seconds);

 private:
  const double began_;
  StatusLine line_;
};

class ChangeProgress {
 public:
  ChangeProgress();
  // Before a change is tried. Silent for the first second.
  void trying(std::string_view change);

 private:
  const double began_;
  StatusLine line_;
};

}  // namespace tidepool
