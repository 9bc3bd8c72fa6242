// One try to plan: for given sweeps and chunk size.
#pragma once

#include "planner/planner.h"
#include "planner/residence.h"

namespace tidepool {

struct AttemptOptions {
  u32 sweeps = 1;
  u64 chunk_elements = 0;
};

// Places for everything; the ops come later, if they are wanted.
struct Attempt {
  AttemptOptions options;
  bool clipping = true;  // updates wait, if there are any
  Layout layout;
  Program program;
  DeviceTier device;
  HostTier host;
  std::array<Bytes, tier_count> need{};  // of each tier; host and disk only if asked for
  bool fits = false;
};

// One way to lie in the tiers: planned for budgets of its own, whatever the job's are.
struct Way {
  AttemptOptions shape;
  DeviceTierOptions device;
  Bytes device_budget{};
  Bytes host_budget{};
};

// The layout and the program of a shape, and no tier yet.
Attempt make_parts(const ModelGraph&, const PlanOptions&, const AttemptOptions&);

// The options with budgets that a way has.
PlanOptions options_of(const PlanOptions&, const Way&);

// As the way has it, but with what the job's budgets have room for beyond that. REQUIRES: the way needs no
// more than the budgets.
Attempt attempt_way(const ModelGraph&, const PlanOptions&, const Way&);

// Without `advise` it stops at the first tier that does not fit.
Attempt attempt(const ModelGraph&, const PlanOptions&, const AttemptOptions&);

// Its ops and edges. REQUIRES: it fits.
Plan plan_of(const ModelGraph&, const PlanOptions&, Attempt&&);

// How much more the tiers would have to be, together.
u64 shortfall(const PlanOptions&, const Attempt&);

}  // namespace tidepool
