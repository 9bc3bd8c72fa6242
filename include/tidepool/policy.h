// What a user may tell the planner instead of letting it choose.
#pragma once

#include "base/types.h"

namespace tidepool {

// Where persistent chunks rest. `mixed`: windows take device, host and disk in turn.
enum class HomePolicy : u8 { automatic, device, host, disk, mixed };
enum class RecomputePolicy : u8 { automatic, keep, recompute };

}  // namespace tidepool
