// rules_of() makes the rules of updates that a config names: those of its groups, then those of its
// optimizer.
#pragma once

#include <vector>

#include "base/result.h"
#include "config/config.h"
#include "tidepool/model_graph.h"

namespace tidepool {

// Error: ErrorKind::usage, naming the entry of train.optim_groups.
Result<std::vector<UpdateRule>> rules_of(const TrainConfig&);

// Checks that every group names a tensor that trains, and that the config's optimizer is left some.
Result<void> check_groups(const TrainConfig&, const ModelGraph&);

}  // namespace tidepool
