// phase_bounds() gives the least seconds of a step's phases on a machine, for the work that a plan has chosen
// to compute. Derived in docs/lower-bounds.md.
#pragma once

#include <string>
#include <vector>

#include "executor/sim/cost.h"
#include "tidepool/machine.h"
#include "tidepool/model_graph.h"
#include "tidepool/plan.h"

namespace tidepool {

struct PhaseBound {
  std::string phase;  // with clipping "forward" (with the updates), then "backward"; else "step"
  double seconds = 0;
  std::string binds;  // "compute", "update", "h2d", "d2h", "disk" or "memory"
};

struct PhaseBoundInput {
  const Plan& plan;
  const ModelGraph& graph;
  const Machine& machine;
  OpSeconds seconds;
  bool recompute = true;  // count the plan's recompute; if false: the least of any plan
};

// The sum of the phases bounds the step: no order of the same work is faster.
std::vector<PhaseBound> phase_bounds(const PhaseBoundInput&);

}  // namespace tidepool
