// Seconds of each phase of the steady steps: forward (with clipping the updates of the step before run under
// it), from one norm's end to the first backward op; backward, from there to the next norm's end.
#pragma once

#include <vector>

#include "engine/engine.h"
#include "fit/phase_bound.h"
#include "report/run_report.h"

namespace tidepool {

class PhaseClock {
 public:
  // Memory for `steps` steps is taken here.
  PhaseClock(const Plan&, u64 steps);

  void completed(const Issue&, const Completion&);
  // The next step does not begin where the last one ended.
  void at_rest() { norm_ = Nanos{}; }

  u64 steps() const { return forward_seconds_.size(); }
  // The phases of the step of median length, the shorter of two in the middle, beside bounds that were
  // computed for the same phases; one bound alone is compared with the whole step.
  std::vector<PhaseTime> beside(const std::vector<PhaseBound>&) const;

 private:
  OpId first_backward_{};  // of the body
  Nanos norm_{};           // end of the last one; 0: none to count from
  Nanos backward_{};       // begin of this step's; 0: not seen
  std::vector<double> forward_seconds_, backward_seconds_;
};

}  // namespace tidepool
