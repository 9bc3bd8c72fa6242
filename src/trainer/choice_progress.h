// That a plan is being chosen: said where it takes longer than people wait in silence.
#pragma once

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

}  // namespace tidepool
