// Selects the traced step that represents all steps.
#pragma once

#include <span>

#include "engine/trace.h"
#include "fit/forecast.h"
#include "report/step_file.h"

namespace tidepool {

// Times of the run of the body with the median length, from norm to norm, among those that were recorded
// completely.
// RETURNS: unknown times if there is none: a run of one step, or a trace that ended too early.
StepTimes steady_step(const Plan&, std::span<const TracedOp>);

// Times of the predicted step; unknown if its ops were not kept.
StepTimes forecast_step(const Plan&, const Forecast&);
// Ops of the predicted step, for the trace.
std::vector<TracedOp> forecast_trace(const Plan&, const Forecast&);

}  // namespace tidepool
