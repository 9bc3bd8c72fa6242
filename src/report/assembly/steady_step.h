// Which of the steps that were traced stands for all.
#pragma once

#include <span>

#include "engine/trace.h"
#include "fit/forecast.h"
#include "report/step_file.h"

namespace tidepool {

// The run of the body whose length, from norm to norm, is the median of those that were recorded in
// full. Unknown where there is none: a run of one step, or a trace that ended too early.
StepTimes steady_step(const Plan&, std::span<const TracedOp>);

// The step that was predicted; unknown if its ops were not kept.
StepTimes forecast_step(const Plan&, const Forecast&);
// Its ops, for the trace.
std::vector<TracedOp> forecast_trace(const Plan&, const Forecast&);

}  // namespace tidepool
