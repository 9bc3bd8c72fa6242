// all_is_done() and done_before() handle a resume that has no step left to do.
#pragma once

#include "checkpoint/checkpoint.h"
#include "config/config.h"
#include "report/run_report.h"
#include "run/outputs/run_outputs.h"

namespace tidepool {

// RETURNS: true if no step is left and report.json is written. False for a run that was killed after its last
// step and before its report: the resume writes the report.
bool all_is_done(const FoundCheckpoint&, const Config&);

// Prints that there is nothing to do, and which setting to change to train on.
// RETURNS: a report of what the checkpoint tells about the run.
RunReport done_before(const FoundCheckpoint&, const Config&, RunOutputs&);

}  // namespace tidepool
