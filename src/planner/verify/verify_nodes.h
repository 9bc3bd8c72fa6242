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

// NodeMessage names what travels: a send and the receive that it meets have equal ones.
struct NodeMessage {
  u32 from = 0, to = 0;
  Kind
      kind{};  // param; grad_part for parts of gradients, which are accumulators where they are made; scalars
  u32 window = none, cut = none;
  u32 use = 0;  // parts of gradients
  auto operator<=>(const NodeMessage&) const = default;
};
// REQUIRES: a send or a receive.
NodeMessage message_of(const Plan&, const Segment&, const Op&);

}  // namespace tidepool
