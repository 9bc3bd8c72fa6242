// Attempt is one try to plan, for a given number of sweeps and chunk size.
#pragma once

#include "planner/planner.h"
#include "planner/residence.h"

namespace tidepool {

struct AttemptOptions {
  u32 sweeps = 1;
  u64 chunk_elements = 0;
};

// Attempt has places for all chunks. Its ops are made later by plan_of(), if they are wanted.
struct Attempt {
  AttemptOptions options;
  bool clipping = true;  // true if updates wait for the norm, provided that there are updates
  Layout layout;
  Program program;
  DeviceTier device;
  HostTier host;
  std::array<Bytes, tier_count> need{};  // per tier; host and disk only if asked for
  bool fits = false;
};

// TierCandidate is one plan of the tiers, made for budgets of its own that do not depend on the job's.
struct TierCandidate {
  AttemptOptions shape;
  DeviceTierOptions device;
  Bytes device_budget{};
  Bytes host_budget{};
};

// RETURNS: layout and program of a shape, without tiers.
Attempt make_parts(const ModelGraph&, const PlanOptions&, const AttemptOptions&);

// RETURNS: the options, with the budgets of the candidate.
PlanOptions options_of(const PlanOptions&, const TierCandidate&);

// Plans the candidate, and uses all room that the job's budgets have beyond its needs.
// REQUIRES: the candidate needs no more than the budgets.
Attempt attempt_candidate(const ModelGraph&, const PlanOptions&, const TierCandidate&);

// Plans tier after tier. Without PlanOptions::advise it stops at the first tier that does not fit.
Attempt attempt(const ModelGraph&, const PlanOptions&, const AttemptOptions&);

// Makes the ops and edges of the attempt.
// REQUIRES: it fits.
Plan plan_of(const ModelGraph&, const PlanOptions&, Attempt&&);

// Bytes that are missing in all tiers together.
u64 shortfall(const PlanOptions&, const Attempt&);

}  // namespace tidepool
