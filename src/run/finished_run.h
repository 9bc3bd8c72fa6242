// A run that is asked to go on and has nothing left to do.
#pragma once

#include "checkpoint/checkpoint.h"
#include "config/config.h"
#include "report/run_report.h"
#include "run/outputs/run_outputs.h"

namespace tidepool {

// RETURNS: true if no step is left and report.json is written. A run killed just before its report still owes
// it.
bool all_is_done(const FoundCheckpoint&, const Config&);

// Says that there is nothing to do, and what would change that. RETURNS: what is known of the run.
RunReport done_before(const FoundCheckpoint&, const Config&, RunOutputs&);

}  // namespace tidepool
