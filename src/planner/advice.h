// Where a job does not fit: what is short, and the smallest change that mends it.
#pragma once

#include "planner/fit.h"

namespace tidepool {

// The tiers that are short, and the smallest budgets that fit.
Error does_not_fit(Fit&, const PlanOptions&);

}  // namespace tidepool
