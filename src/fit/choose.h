// The planner's discrete choices, made by predicted time: each candidate is planned and replayed in virtual
// time, as far as it can still win; the one chosen is verified.
#pragma once

#include <functional>

#include "fit/forecast.h"
#include "planner/planner.h"

namespace tidepool {

struct Choice {
  Plan plan;
  Forecast forecast;
  PlanOptions options;  // what was chosen, written out
  u32 candidates = 0;   // tried
};

// Called before each plan is tried, with how many have been and the best step so far (0: none yet): it may
// take minutes, and only the caller has a clock.
using PlanTried = std::function<void(u32 candidates, double best_step_seconds)>;

struct ChooseOptions {
  std::vector<BlockSeconds> blocks;  // measured; empty: from their kernels
  PlanTried tried;
};

// Starts from the plan that make_plan gives, and from one per home, and changes one choice at a time
// (chunk size, recompute, home, sweeps, first blocks at home on the device), keeping what is faster, until
// nothing is or so many ops have been worked on that it would take minutes. What the options fix stays fixed.
// Deterministic: the same inputs give the same plan. Errors: as make_plan.
Result<Choice> choose_plan(const ModelGraph&, const PlanOptions&, const Machine&, const ChooseOptions& = {});

}  // namespace tidepool
