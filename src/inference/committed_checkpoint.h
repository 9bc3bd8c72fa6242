// save_committed_state() makes a checkpoint of the state that a killed run has committed in its swap file, so
// that it can be evaluated, exported and used like any other.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace tidepool {

// A no-op if `run_dir` is no run, still trains, has committed nothing, or has a checkpoint of that step or a
// later one. The committed state stays: --resume auto resumes from it. RETURNS: lines for people. Errors: as
// of a save; corrupt_checkpoint if the committed state is damaged.
Result<std::vector<std::string>> save_committed_state(const std::string& run_dir);

}  // namespace tidepool
