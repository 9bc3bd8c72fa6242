// Memory that a training takes beside its session: for the trace, and for the numbers of each step.
#pragma once

#include "config/config.h"
#include "tidepool/plan.h"

namespace tidepool {

// Events of trace.json: they show warm-up and several steady steps.
inline constexpr u64 trace_events_max = 200'000;

// RETURNS: the most that the meters take up to the last step, or step 100,000, and the report after it.
Bytes training_memory(const Config&, const Plan&);

}  // namespace tidepool
