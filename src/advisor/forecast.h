// How long a plan's steady step takes on a machine: the plan replayed in virtual time.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "engine/profile.h"
#include "executor/sim/cost.h"
#include "tidepool/machine.h"
#include "tidepool/model_graph.h"
#include "tidepool/plan.h"

namespace tidepool {

struct ForecastOp {
  OpId op{};
  Nanos started{}, finished{};  // from the step's first op
};

struct Forecast {
  double step_seconds = 0;                             // between the norms of two bodies
  std::array<double, lane_kind_count> busy_seconds{};  // per step, of the busiest lane of each kind
  std::array<double, cause_count> exposed_seconds{};   // adds up to the step
  std::string binds;            // what most of the step waits for: "compute", "disk_read", ...
  std::vector<ForecastOp> ops;  // of one steady body, by start
  i64 norm_before_ns = 0;       // end of the step before, on the clock of `ops`
};

struct ForecastOptions {
  std::vector<BlockSeconds> blocks;  // measured; empty: from flops
  u32 steps = 4;                     // bodies replayed; the last one counts
  bool keep_ops = false;
};

// Errors are ErrorKind::internal: the plan made the simulator find a wrong read.
Result<Forecast> forecast(const Plan&, const ModelGraph&, const Machine&, const ForecastOptions& = {});

}  // namespace tidepool
