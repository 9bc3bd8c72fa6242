// ChoiceProgress shows on stderr that plan_run() is choosing a plan, or, if the job does not fit, which
// changes it tries. Prints nothing in the first second, and only for callers that pass listener() to
// plan_run().
#pragma once

#include <string_view>

#include "fit/plan_run.h"
#include "report/status_line.h"

namespace tidepool {

class ChoiceProgress {
 public:
  ChoiceProgress();
  // The listener to pass to plan_run().
  // REQUIRES: this object outlives the listener.
  PlanProgress listener();

 private:
  void tried(u32 candidates, double best_step_seconds);
  void trying(std::string_view change);

  const double began_;
  StatusLine line_;
};

}  // namespace tidepool
