// Chooses the traced step that represents all steps.
#pragma once

#include <span>

#include "engine/trace.h"
#include "fit/forecast.h"
#include "report/step_file.h"

namespace tidepool {

// RETURNS: the run of the body whose length, from norm to norm, is the median over all runs of the body that
// were recorded in full. Unknown if no run was recorded in full: a run of one step, or a trace that ended too
// early.
StepTimes steady_step(const Plan&, std::span<const TracedOp>);

// RETURNS: the predicted step; unknown if the forecast did not keep its ops.
StepTimes forecast_step(const Plan&, const Forecast&);
// RETURNS: the ops of the predicted step, for the trace.
std::vector<TracedOp> forecast_trace(const Plan&, const Forecast&);

}  // namespace tidepool
