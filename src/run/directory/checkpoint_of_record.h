// make_checkpoint_of() makes a checkpoint of the state that a killed run has recorded in its swap file, for
// those that read checkpoints only. The recorded state stays.
#pragma once

#include "checkpoint/checkpoint.h"
#include "fit/job.h"
#include "run/commits/recorded_run.h"

namespace tidepool {

// REQUIRES: the caller has locked the run directory. Errors: as of a save; corrupt_checkpoint if the recorded
// state is damaged.
Result<SavedCheckpoint> make_checkpoint_of(const RecordedRun&, const Job&);

}  // namespace tidepool
