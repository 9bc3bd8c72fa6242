// choose_plan() makes the planner's discrete choices by predicted time: each candidate is planned and
// replayed in virtual time, as long as it can still win; the chosen plan is verified.
#pragma once

#include <functional>

#include "fit/forecast.h"
#include "planner/planner.h"

namespace tidepool {

struct Choice {
  Plan plan;
  Forecast forecast;
  PlanOptions options;  // with the chosen values written out
  u32 candidates = 0;   // plans tried
};

// Called before each plan is tried, with the number of plans tried and the best step so far (0: none yet):
// the search may take minutes, and only the caller has a clock.
using PlanTried = std::function<void(u32 candidates, double best_step_seconds)>;

struct ChooseOptions {
  OpSeconds seconds;
  PlanTried tried;
};

// Starts from make_plan()'s plan, and from one plan per home. Changes one choice at a time (chunk size,
// recompute, home, sweeps, first blocks at home on the device) and keeps what is faster, until nothing is, or
// until so many ops have been planned that more would take minutes. Choices that the options fix stay fixed.
// Deterministic: the same inputs give the same plan.
// Errors: as make_plan().
Result<Choice> choose_plan(const ModelGraph&, const PlanOptions&, const Machine&, const ChooseOptions& = {});

}  // namespace tidepool
