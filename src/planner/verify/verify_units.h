// Checks that cuts are those of rules: what an update changes is its rule's, and has the rule's state.
#pragma once

#include <string>
#include <vector>

#include "tidepool/model_graph.h"
#include "tidepool/plan.h"

namespace tidepool {

// RETURNS: what is wrong, or "".
std::string wrong_with_units(const Plan&, const ModelGraph&);

// RETURNS: [window] versions of the accumulator of use 0 before a segment's backward begins: in fp32 it is
// the gradient too, which the update of the step before changes if its rule is streamed.
std::vector<u32> versions_before_sums(const Plan&, const Segment&);

}  // namespace tidepool
