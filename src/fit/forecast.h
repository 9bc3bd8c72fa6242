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
  std::string binds;            // what most of the step waits for: "compute", "disk_read", "disk", ...
  std::vector<ForecastOp> ops;  // of one steady body, by start
  i64 norm_before_ns = 0;       // end of the step before, on the clock of `ops`
};

struct ForecastOptions {
  std::vector<BlockSeconds> blocks;  // measured; empty: from their kernels
  u32 steps = 4;                     // bodies replayed; the last one counts
  bool keep_ops = false;
  bool check_tags = true;  // of every read; without, for times only, it takes half as long
  // A last body that takes longer is not replayed to its end: step_seconds is then what it had taken.
  double worth_seconds = 1e30;
};

// Errors are ErrorKind::internal: the plan made the simulator find a wrong read.
Result<Forecast> forecast(const Plan&, const ModelGraph&, const Machine&, const ForecastOptions& = {});

// No replay's step is shorter: the busiest lane or shared resource of a steady body, working without a pause.
// A hundredth of a replay's cost.
double least_step_seconds(const Plan&, const ModelGraph&, const Machine&,
                          const std::vector<BlockSeconds>& blocks);

}  // namespace tidepool
