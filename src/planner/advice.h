// Where a job does not fit: what is short, and the smallest change that mends it.
#pragma once

#include <optional>

#include "planner/attempt.h"

namespace tidepool {

// Which tier is short, and the smallest change that fits: found by planning it, because more of one
// tier changes what the others hold. `best`: the attempt that came nearest.
Error does_not_fit(const ModelGraph&, const PlanOptions&, const Attempt& best);

// Told at once, without trying: the tiers together are smaller than the state, so no choice makes room. If
// disk is all that is short, how much is known from one plan with as much as it likes.
std::optional<Error> too_large(const ModelGraph&, const PlanOptions&);

}  // namespace tidepool
