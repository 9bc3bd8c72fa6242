// Where a job does not fit: what is short, and the smallest change that mends it.
#pragma once

#include <optional>

#include "planner/attempt.h"

namespace tidepool {

// Which tier is short, and the smallest change that fits: found by planning it, because more of one
// tier changes what the others hold. `best`: the attempt that came nearest.
Error does_not_fit(const ModelGraph&, const PlanOptions&, const Attempt& best);

// Budgets that were raised above what a job `had`, lowered again in turn while it still fits with these
// sweeps and chunk size: to 1 in 64, or less exactly where an attempt at its `ops` takes long.
void lower_again(const ModelGraph&, const Budgets& had, const AttemptOptions&, u64 ops, PlanOptions& larger);

inline Bytes& budget_of(Budgets& budgets, Tier tier) {
  return tier == Tier::device ? budgets.device : tier == Tier::host ? budgets.host : budgets.disk;
}

// Told at once, without trying: the tiers together are smaller than the state, so no choice makes room. If
// disk is all that is short, how much is known from one plan with as much as it likes.
std::optional<Error> too_large(const ModelGraph&, const PlanOptions&);

}  // namespace tidepool
