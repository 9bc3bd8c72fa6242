// Shapes that a step may have, in the order in which they are tried: sweeps, and sizes of chunks.
#pragma once

#include <vector>

#include "planner/planner.h"

namespace tidepool {

std::vector<u32> sweeps_to_try(const PlanOptions&);

// From the size that suits the host's budget downwards.
std::vector<u64> chunk_elements_to_try(const ModelGraph&, const PlanOptions&);

// A few sizes that the model decides and no budget, from large to small: the last asks least of the tiers,
// and those before it take less time to plan.
std::vector<u64> chunk_elements_of_ways(const ModelGraph&, const PlanOptions&);

}  // namespace tidepool
