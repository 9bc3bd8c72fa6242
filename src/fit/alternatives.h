// Where a job does not fit: what else would make it fit than the budgets that the planner asks for.
#pragma once

#include <functional>
#include <string_view>

#include "config/config.h"
#include "fit/budget_room.h"
#include "planner/planner.h"

namespace tidepool {

// Called before each change is tried, with what it is of: it may take seconds, and only the caller has a
// clock.
using ChangeTried = std::function<void(std::string_view change)>;

// How far is looked, in ops planned. Where that was too little to tell, the message says so.
struct AlternativesOptions {
  bool goes_on = false;  // from a checkpoint, which other lengths or another precision do not fit
  u64 change_ops_max = 300'000;
  // Planning so many takes some 7 s (GPT-2 of 18 billion parameters on 8 GPUs: 1.4 million in 5 s).
  u64 ops_max = 2'000'000;
  ChangeTried trying;
};

// `error`, with which make_plan (or a choice of plans) refused `options`, and what else fits: one budget
// alone where several are short or a disk is wanted that is not there; the largest smaller batch with as many
// tokens per step; of a run that begins, the longest shorter sequences, and weights in 16 bits. What there is
// no room for is not advised: where the error does, budgets within the room take the place of that, or the
// message says that there are none. Each is planned before it is told: up to a dozen searches. Other errors
// as they are.
Error add_alternatives(const Config&, const PlanOptions& options, const BudgetRoom&, Error,
                       const AlternativesOptions& = {});

}  // namespace tidepool
