// Checks one op by itself: that its operands are those of an op of its kind, on its device and its node.
#pragma once

#include <span>
#include <string>

#include "tidepool/model_graph.h"
#include "tidepool/plan.h"

namespace tidepool {

// RETURNS: what is wrong, as the end of a sentence that begins with the op; empty: nothing.
std::string wrong_with_operands(const Plan&, const ModelGraph&, const Op&, std::span<const Operand>);

}  // namespace tidepool
