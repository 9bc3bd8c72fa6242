// Writes trace.json and step.json from the engine's record of completed ops and the forecast.
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

// Writes trace.json, with measured and predicted ops as two processes, and step.json. If not `wanted`,
// removes the files of an earlier process, which would not match the new report.
Result<void> write_traces(const std::string& run_dir, bool wanted, const Plan&, const ModelGraph&,
                          const TracedRun&);

}  // namespace tidepool
