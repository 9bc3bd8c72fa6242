// Shapes that a step may have, in the order of trying: counts of sweeps, and chunk sizes.
#pragma once

#include <vector>

#include "planner/planner.h"

namespace tidepool {

std::vector<u32> sweeps_to_try(const PlanOptions&);

// Chunk sizes, from the size that suits the host's budget downwards.
std::vector<u64> chunk_elements_to_try(const ModelGraph&, const PlanOptions&);

// A few sizes that depend on the model and not on budgets, from large to small: the last needs least of the
// tiers, and the larger ones take less time to plan.
std::vector<u64> chunk_elements_of_ways(const ModelGraph&, const PlanOptions&);

}  // namespace tidepool
