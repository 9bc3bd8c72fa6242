#pragma once

#include "cli/commands.h"

namespace tidepool {

// `plan --max`: prints the largest model of GPT-3's proportions that fits, planned and verified.
Result<void> print_largest(const PlanArguments&);

}  // namespace tidepool
