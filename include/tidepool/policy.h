// Policies that a user may give to the planner instead of letting it choose.
#pragma once

#include "base/types.h"

namespace tidepool {

// Tier in which persistent chunks rest. `mixed`: windows take device, host and disk in turn.
enum class HomePolicy : u8 { automatic, device, host, disk, mixed };
enum class RecomputePolicy : u8 { automatic, keep, recompute };

}  // namespace tidepool
