// Shapes that a step may have, in the order of trying: counts of sweeps, and chunk sizes. check_plan_size()
// refuses jobs with more operations than can be planned while a user waits: the error comes at once, with a
// key and a value that works, instead of after minutes of silence.
#pragma once

#include <vector>

#include "planner/planner.h"

namespace tidepool {

std::vector<u32> sweeps_to_try(const PlanOptions&);

// Chunk sizes, from the size that suits the host's budget downwards.
std::vector<u64> chunk_elements_to_try(const ModelGraph&, const PlanOptions&);

// A few sizes that depend on the model and not on budgets, from large to small: the last needs least of the
// tiers, and the larger ones take less time to plan.
std::vector<u64> candidate_chunk_elements(const ModelGraph&, const PlanOptions&);

// PlanSize counts the passes and chunk sets, on which the time of planning depends.
struct PlanSize {
  u64 passes = 0;      // passes of micro-batches through blocks
  u64 chunk_sets = 0;  // cuts of all windows
  u64 ops() const;     // passes and chunk sets on one scale
};
PlanSize plan_size(const ModelGraph&, const PlanOptions&, u64 chunk_elements);

// `chunk_elements`: the largest chunk size that would be tried. ErrorKind::usage: too large to be planned.
Result<void> check_plan_size(const ModelGraph&, const PlanOptions&, u64 chunk_elements);

}  // namespace tidepool
