// What of ours is in a run directory. Inside src/checkpoint.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/text/checkpoint_name.h"

namespace tidepool {

// All of ours in `run_dir`, in no order. None where there is no such directory; ErrorKind::io where it
// cannot be read.
Result<std::vector<CheckpointName>> list_checkpoints(const std::string& run_dir);

}  // namespace tidepool
