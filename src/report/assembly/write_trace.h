// From the engine's record of completed ops, and the forecast, to trace.json and step.json.
#pragma once

#include <span>
#include <string>

#include "base/result.h"
#include "engine/trace.h"
#include "fit/forecast.h"
#include "tidepool/model_graph.h"

namespace tidepool {

struct TracedRun {
  std::span<const TracedOp> measured;
  const Forecast& forecast;  // may hold no ops
};

// trace.json, measured and predicted as two processes, and step.json. Where they are not `wanted`, those that
// an earlier process left are taken away: they would not fit the report beside them.
Result<void> write_traces(const std::string& run_dir, bool wanted, const Plan&, const ModelGraph&,
                          const TracedRun&);

}  // namespace tidepool
