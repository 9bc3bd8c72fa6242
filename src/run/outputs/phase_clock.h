// PhaseClock measures the seconds of each phase of steady steps. Forward lasts from the end of a norm op to
// the first backward op; with clipping, it includes the updates of the step before. Backward lasts from there
// to the end of the next norm op.
#pragma once

#include <vector>

#include "engine/engine.h"
#include "fit/phase_bound.h"
#include "report/run_report.h"

namespace tidepool {

class PhaseClock {
 public:
  // Allocates memory for `steps` steps.
  PhaseClock(const Plan&, u64 steps);

  void completed(const Issue&, const Completion&);
  // Call at rest: the next step does not begin where the last one ended.
  void at_rest() { norm_ = Nanos{}; }

  u64 steps() const { return forward_seconds_.size(); }
  // RETURNS: the phases of the step of median length (of an even number, the shorter one in the middle),
  // beside the bounds of the same phases. A single bound is compared with the whole step.
  std::vector<PhaseTime> beside(const std::vector<PhaseBound>&) const;

 private:
  OpId first_backward_{};  // first backward op of the body
  Nanos norm_{};           // end of the last norm op; 0: there is none to count from
  Nanos backward_{};       // begin of this step's backward; 0: not seen
  std::vector<double> forward_seconds_, backward_seconds_;
};

}  // namespace tidepool
