// Writes trace.json and step.json from the engine's record of completed ops and from the forecast.
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
  const Forecast& forecast;  // may have no ops
};

// Writes trace.json, with measured and predicted as two processes, and step.json. If not `wanted`, writes
// neither file. Files of an earlier process are removed in any case: they would not fit the report beside
// them.
Result<void> write_traces(const std::string& run_dir, bool wanted, const Plan&, const ModelGraph&,
                          const TracedRun&);

}  // namespace tidepool
