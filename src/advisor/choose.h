// The planner's discrete choices, made by predicted time: each candidate is planned, verified and
// replayed in virtual time.
#pragma once

#include "advisor/forecast.h"
#include "planner/planner.h"

namespace tidepool {

struct Choice {
  Plan plan;
  Forecast forecast;
  PlanOptions options;  // what was chosen, written out
  u32 candidates = 0;   // tried
};

// Starts from the plan that make_plan gives, and from one per home, and changes one choice at a time
// (chunk size, recompute, home, sweeps), keeping what is faster, until nothing is or so many ops have been
// replayed that it would take minutes. What the options fix stays fixed. Deterministic: the same inputs give the same
// plan. Errors: as make_plan.
Result<Choice> choose_plan(const ModelGraph&, const PlanOptions&, const Machine&,
                           const std::vector<BlockSeconds>& blocks = {});

}  // namespace tidepool
