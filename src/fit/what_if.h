// what_if() replays the plan with more of one resource at a time. Changes of budgets, nodes, clipping and of
// how devices share a step are planned again: with the choices of the current plan, or, if those leave no
// room, as `tidepool plan` would plan the change.
#pragma once

#include <functional>

#include "fit/plan_run.h"

namespace tidepool {

struct WhatIf {
  std::string change;       // "host budget +25%"
  double step_seconds = 0;  // 0: it does not fit
  double tokens = 1;        // of a step, in those of the plan at hand: one more node brings its own
  std::string binds;
};

// Called before each change: its number from 1, the number of changes, and its name.
using WhatIfTried = std::function<void(u32 number, u32 of, std::string_view change)>;

// Tries +25 % of each budget and rate that the machine has, one more node, the other of data and layers over
// devices, clipping off, and the optimizer's state in 8 bits. The options that were asked for decide if a
// change fits. A machine file without a network is given one of 100 Gb/s for the second node. REQUIRES: the
// run has a machine, and its plan was made with its options.
Result<std::vector<WhatIf>> what_if(const ModelGraph&, const RunPlan&, const WhatIfTried& tried = {});

}  // namespace tidepool
