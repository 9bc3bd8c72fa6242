// One try to plan: for given sweeps and chunk size.
#pragma once

#include "planner/planner.h"
#include "planner/residence.h"

namespace tidepool {

struct AttemptOptions {
  u32 sweeps = 1;
  u64 chunk_elements = 0;
};

// Where everything is; the ops come later, if they are wanted.
struct Attempt {
  AttemptOptions options;
  bool clipping = true;  // updates wait, if there are any
  Layout layout;
  Program program;
  DeviceTier device;
  HostTier host;
  std::array<Bytes, tier_count>
      need{};  // of each tier, whatever the budgets; host and disk only if asked for
  bool fits = false;
};

// Without `advise` it stops at the first tier that does not fit.
Attempt attempt(const ModelGraph&, const PlanOptions&, const AttemptOptions&);

// Its ops and edges. REQUIRES: it fits.
Plan plan_of(const ModelGraph&, const PlanOptions&, Attempt&&);

// How much more the tiers would have to be, together.
u64 shortfall(const PlanOptions&, const Attempt&);

}  // namespace tidepool
