// Where a job does not fit: what is short, and the smallest change that mends it.
#pragma once

#include <optional>

#include "planner/attempt.h"

namespace tidepool {

// Which tier is short, and the smallest change that fits: found by planning it, because more of one
// tier changes what the others hold. What is told is what was planned. `best`: the attempt that came nearest.
Error does_not_fit(const ModelGraph&, const PlanOptions&, const Attempt& best);

// Budgets that were raised above what a job `had`, lowered again in turn while it still fits with these
// sweeps and chunk size: to 1 in 64, or less exactly where an attempt at its `ops` takes long. `work` counts
// the attempts and stops none: they are few, and without them the advice is all that there is.
void lower_again(const ModelGraph&, const Budgets& had, const AttemptOptions&, u64 ops, PlanOptions& larger,
                 SearchWork* work = nullptr);

// Budgets that were raised above what a job `had`, by 1 in 24 more, up to `most`. False: that is what they
// are.
bool raise_a_little(const Budgets& had, const Budgets& most, Budgets& larger);

// Told at once, without trying: the tiers together are smaller than the state, so no choice makes room. If
// disk is all that is short, how much is known from one plan with as much as it likes.
std::optional<Error> too_large(const ModelGraph&, const PlanOptions&);

}  // namespace tidepool
