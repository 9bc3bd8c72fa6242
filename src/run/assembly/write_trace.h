// Writes trace.json and step.json from the engine's list of completed ops and the forecast.
#pragma once

#include <span>

#include "engine/trace.h"
#include "fit/forecast.h"
#include "session/session.h"

namespace tidepool {

// Writes trace.json, with measured and predicted ops as two processes, and step.json. Without output.trace,
// removes the files of an earlier process, which would not match the new report.
// `forecast`: may have no ops.
Result<void> write_traces(const Session&, std::span<const TracedOp> measured, const Forecast&);

}  // namespace tidepool
