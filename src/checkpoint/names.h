// Lists the checkpoint directories of a run. Used only inside src/checkpoint.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/text/checkpoint_name.h"

namespace tidepool {

// All names of Tidepool in `run_dir`, in no order.
// RETURNS: an empty list if the directory does not exist.
// Error: io if it cannot be read.
Result<std::vector<CheckpointName>> list_checkpoints(const std::string& run_dir);

}  // namespace tidepool
