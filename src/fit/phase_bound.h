// The least seconds of a step's phases on a machine, for what a plan has chosen to compute. Derived in
// docs/lower-bounds.md.
#pragma once

#include <string>
#include <vector>

#include "executor/sim/cost.h"
#include "tidepool/machine.h"
#include "tidepool/model_graph.h"
#include "tidepool/plan.h"

namespace tidepool {

struct PhaseBound {
  std::string phase;  // with clipping "forward" (updates under it), then "backward"; else "step"
  double seconds = 0;
  std::string binds;  // "compute", "host_adam", "h2d", "d2h", "disk" or "memory"
};

struct PhaseBoundInput {
  const Plan& plan;
  const ModelGraph& graph;
  const Machine& machine;
  std::vector<BlockSeconds> blocks;  // measured; empty: from their kernels
  bool recompute = true;             // count what the plan computes again; else any plan's least
};

// Their sum bounds the step: no order of the same work is faster.
std::vector<PhaseBound> phase_bounds(const PhaseBoundInput&);

}  // namespace tidepool
