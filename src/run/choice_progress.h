// That a plan is being chosen, or what to change where there is none: said where it takes longer than people
// wait in silence, and only to who asks.
#pragma once

#include <string_view>

#include "fit/plan_run.h"
#include "report/status_line.h"

namespace tidepool {

class ChoiceProgress {
 public:
  ChoiceProgress();
  // To be told by plan_run, for as long as this lives. Silent for the first second.
  PlanProgress listener();

 private:
  void tried(u32 candidates, double best_step_seconds);
  void trying(std::string_view change);

  const double began_;
  StatusLine line_;
};

}  // namespace tidepool
