// add_alternatives() finds what else than larger budgets would make a job fit.
#pragma once

#include <functional>
#include <string_view>

#include "fit/budget_room.h"
#include "fit/job.h"

namespace tidepool {

// Called before each change is tried, with the name of the change: a try may take seconds, and only the
// caller has a clock.
using ChangeTried = std::function<void(std::string_view change)>;

// Limits of the search, in ops planned. If they were too small to tell, the message says so.
struct AlternativesOptions {
  bool resumes = false;  // the run resumes from a checkpoint, which fixes sequence length and precision
  u64 change_ops_max = 300'000;
  // Planning 2 million ops takes some 7 s (GPT-2 of 18 billion parameters on 8 GPUs: 1.4 million in 5 s).
  u64 ops_max = 2'000'000;
  ChangeTried trying;
};

// Adds to `error`, with which make_plan (or a choice of plans) refused `options`, the changes that fit: one
// budget alone, if several are short or a disk is wanted that does not exist; the largest smaller batch with
// as many tokens per step; for a new run, the longest shorter sequences, and weights in 16 bits. Changes for
// which there is no room are not advised: if the error advises such budgets, budgets within the room replace
// them, or the message says that there are none. Each change is planned before it is advised: up to a dozen
// searches.
// RETURNS: the error with its changes; errors of other kinds unchanged.
Error add_alternatives(const Job&, const PlanOptions& options, const BudgetRoom&, Error,
                       const AlternativesOptions& = {});

}  // namespace tidepool
