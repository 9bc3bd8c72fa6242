// verify_nodes() proves that the plans of several nodes fit each other. As verify_plan, it is written against
// plan.h alone.
#pragma once

#include <span>

#include "base/result.h"
#include "tidepool/model_graph.h"
#include "tidepool/plan.h"

namespace tidepool {

// Verifies each plan, and checks
//  1. all have the same chunks, owners, precision, micro-batches and sweeps, and are of nodes 0, 1, ...;
//  2. every send meets a receive of the same content at the other node, and the other way round, in the same
//  segment: a parameter at the same version, a part of a gradient when it is whole;
//  3. nothing waits in a circle: there is an order of all nodes' ops in which every op finds done what it
//  waits for, though every lane issues its ops in plan order and a receive ends after its send began.
// Error: ErrorKind::internal, naming node and op.
Result<void> verify_nodes(std::span<const Plan>, const ModelGraph&);

}  // namespace tidepool
