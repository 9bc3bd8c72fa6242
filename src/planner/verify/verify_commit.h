// wrong_with_commit() checks what a plan says of the commit, from which a killed run resumes: that it counts
// on all state at one step, and that nothing else lies in its slots.
#pragma once

#include <string>

#include "tidepool/model_graph.h"
#include "tidepool/plan.h"

namespace tidepool {

// RETURNS: the first fault; empty: none.
std::string wrong_with_commit(const Plan&, const ModelGraph&);

}  // namespace tidepool
