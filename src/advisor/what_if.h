// What the next resource would buy: one change at a time, replayed. Budgets and clipping are planned again,
// with the choices of the plan at hand.
#pragma once

#include <functional>

#include "advisor/forecast.h"
#include "planner/planner.h"

namespace tidepool {

struct WhatIf {
  std::string change;       // "host budget +25%"
  double step_seconds = 0;  // 0: it does not fit
  std::string binds;
};

// Before each change: its number from 1, of how many, and what it is.
using WhatIfTried = std::function<void(u32 number, u32 of, std::string_view change)>;

// `base` was made with `options`. +25 % of each budget and rate that the machine has, and clipping off.
Result<std::vector<WhatIf>> what_if(const Plan& base, const ModelGraph&, const PlanOptions& options,
                                    const Machine&, const WhatIfTried& tried = {});

}  // namespace tidepool
