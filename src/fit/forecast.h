// forecast() predicts a plan's steady step time on a machine: it replays the plan in virtual time.
#pragma once

#include <array>
#include <optional>
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
  Nanos started{}, finished{};  // since the step's first op
};

struct Forecast {
  double step_seconds = 0;                             // between the norms of two bodies
  std::array<double, lane_kind_count> busy_seconds{};  // per step, of the busiest lane of each kind
  std::array<double, cause_count> exposed_seconds{};   // their sum is the step
  std::string binds;  // the resource that most of the step waits for: "compute", "disk_read", "disk", ...
  std::vector<ForecastOp> ops;  // of one steady body, sorted by start
  i64 norm_before_ns = 0;       // end of the step before, on the clock of `ops`
};

struct ForecastOptions {
  OpSeconds seconds;
  u32 steps = 4;  // bodies replayed; the last one is the result
  bool keep_ops = false;
  // Steps that are committed: all, or none. Default: all, unless that moves content that rests in memory.
  std::optional<bool> persists = {};
  bool check_tags = true;  // check every read; without tags it takes half as long, for times only
  // If the last body takes longer than this, its replay is stopped: step_seconds is then the time it had
  // taken.
  double worth_seconds = 1e30;
};

// Errors are ErrorKind::internal: the simulator found a wrong read in the plan.
Result<Forecast> forecast(const Plan&, const ModelGraph&, const Machine&, const ForecastOptions& = {});

// Lower limit of a replay's step: the busiest lane or shared resource of a steady body, working without a
// pause. Costs a hundredth of a replay.
double least_step_seconds(const Plan&, const ModelGraph&, const Machine&, const OpSeconds&);

}  // namespace tidepool
