// Checks that cuts are those of rules: what an update changes is its rule's, and has the rule's state.
#pragma once

#include <string>

#include "tidepool/model_graph.h"
#include "tidepool/plan.h"

namespace tidepool {

// RETURNS: what is wrong, or "".
std::string wrong_with_units(const Plan&, const ModelGraph&);

}  // namespace tidepool
