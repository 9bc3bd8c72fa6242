// why_one_version() says what a run lacks to keep a second version of its state on disk.
#pragma once

#include <string>

#include "config/config.h"
#include "tidepool/model_graph.h"
#include "tidepool/plan.h"

namespace tidepool {

// RETURNS: the tier that is short, its need, and what to set. Plans once more.
// REQUIRES: memory.versions is auto, and the plan keeps one version.
std::string why_one_version(const Config&, const ModelGraph&, const Plan&);

}  // namespace tidepool
