// What-if replays the plan with one more resource at a time. Budgets and clipping are planned again: with the
// choices of the plan at hand, or, if those leave no room, as `tidepool plan` would plan the change.
#pragma once

#include <functional>

#include "fit/forecast.h"
#include "planner/planner.h"

namespace tidepool {

struct WhatIf {
  std::string change;       // "host budget +25%"
  double step_seconds = 0;  // 0: it does not fit
  std::string binds;
};

// Before each change: its number from 1, of how many, and what it is.
using WhatIfTried = std::function<void(u32 number, u32 of, std::string_view change)>;

struct WhatIfOptions {
  PlanOptions asked;   // as the config has them: they say whether a change fits
  PlanOptions chosen;  // with what the plan at hand chose
  WhatIfTried tried{};
};

// +25 % of each budget and rate that the machine has, and clipping off. `base` was made with options.chosen.
Result<std::vector<WhatIf>> what_if(const Plan& base, const ModelGraph&, const Machine&,
                                    const WhatIfOptions& options);

}  // namespace tidepool
