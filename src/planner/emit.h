// Turns residence into segments: every op with its operands, frames and versions, in plan order.
#pragma once

#include "planner/residence.h"

namespace tidepool {

// Fills plan.segments (without edges) and plan.homes.
void emit_segments(const ResidenceInput&, const DeviceTier&, const HostTier&, Plan& plan);

}  // namespace tidepool
