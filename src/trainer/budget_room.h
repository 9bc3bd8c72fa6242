// What a machine lets budgets be.
#pragma once

#include <optional>

#include "planner/planner.h"
#include "tidepool/machine.h"

namespace tidepool {

// The most that the machine has for one budget, with the others as the options have them; as a config can say
// it, and never less than that budget is. None: the machine does not say, as one without figures does.
std::optional<Bytes> budget_most(const Machine&, const PlanOptions&, Tier);

// Whether it has room for budgets in place of those of the options.
bool takes_budgets(const Machine&, const PlanOptions&, const Budgets&);

}  // namespace tidepool
