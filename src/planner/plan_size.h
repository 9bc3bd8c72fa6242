// check_plan_size() refuses jobs with more operations than can be planned while a user waits. The error comes
// at once, with a key and a value that works, instead of after minutes of silence.
#pragma once

#include "planner/planner.h"

namespace tidepool {

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
