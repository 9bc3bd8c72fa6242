// Which arguments of `tidepool plan` go together. What would be passed over in silence is refused.
#pragma once

#include "cli/commands.h"

namespace tidepool {

// ErrorKind::usage, saying what goes together.
Result<void> check_plan_arguments(const PlanArguments&);

}  // namespace tidepool
