// make_checkpoint_of() makes a checkpoint of the state that a killed run has committed in its swap file, for
// those that read checkpoints only. The committed state stays.
#pragma once

#include "checkpoint/checkpoint.h"
#include "fit/job.h"
#include "run/commits/committed_run.h"

namespace tidepool {

// REQUIRES: the caller has locked the run directory. Errors: as of a save; corrupt_checkpoint if the
// committed state is damaged.
Result<SavedCheckpoint> make_checkpoint_of(const CommittedRun&, const Job&);

}  // namespace tidepool
