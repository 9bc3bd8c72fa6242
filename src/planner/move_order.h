// Orders what moves in a step: movements, and gathers of windows that have arrived on several replicas.
#pragma once

#include <vector>

#include "planner/residence.h"

namespace tidepool {

// By position, then what comes to the host before what leaves it.
std::vector<Movement> ordered_movements(const HostTier&);

// With several replicas a window is complete only after its cuts have reached their owners and an all_gather
// has passed them to the others. There is one gather per arrival, after the last of its copies or updates.
struct Gather {
  u32 arc = none;
  u32 window = none;
  u8 segments = 0;
  Moment when;
};
// Sorted by the last of the copies or updates, not by use, so that no gather queues on its lane behind a
// later one.
std::vector<Gather> ordered_gathers(const ResidenceInput&, const DeviceTier&, const std::vector<Movement>&);

}  // namespace tidepool
