// Advice for a job that does not fit: the tiers that are short, and the smallest change that makes it fit.
#pragma once

#include "planner/fit.h"

namespace tidepool {

// Error that names the tiers that are short and the smallest budgets that fit.
Error does_not_fit(Fit&, const PlanOptions&);

}  // namespace tidepool
