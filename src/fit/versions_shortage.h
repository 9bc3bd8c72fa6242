// why_one_version() says what a run lacks to keep a second version of its state on disk.
#pragma once

#include <string>

#include "fit/job.h"

namespace tidepool {

// RETURNS: the tier that is short, its need, and what to set. Plans once more.
// REQUIRES: memory.versions is auto, and the plan keeps one version.
std::string why_one_version(const Job&, const Plan&);

}  // namespace tidepool
