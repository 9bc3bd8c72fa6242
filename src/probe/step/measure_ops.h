// Measures ops of a plan, each by itself, in the session's own memory.
#pragma once

#include <optional>
#include <vector>

#include "executor/sim/cost.h"
#include "probe/step/round.h"

namespace tidepool {

// RETURNS: seconds of the op; 0 without one.
Result<double> op_seconds(Session&, Round, std::optional<OpId>);

// Measures one layer for all that are alike. RETURNS: by block.
Result<std::vector<BlockSeconds>> measure_blocks(Session&, Round);

// Orthogonalizes a chunk set of each shape. Where it has several shapes, each takes its predicted share.
// RETURNS: by shape, as ModelGraph::matrix_costs.
Result<std::vector<double>> measure_matrices(Session&, Round, const Machine&);

}  // namespace tidepool
