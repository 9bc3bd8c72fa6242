// verify_plan() proves a plan before it may run. It is written against plan.h alone, so that it shares no
// mistake with the code that makes plans.
#pragma once

#include "base/result.h"
#include "tidepool/model_graph.h"
#include "tidepool/plan.h"

namespace tidepool {

// Replays the segments symbolically in the orders in which they may follow each other and checks
//  1. every op finds each chunk it reads in the frame it names, at the right version;
//  2. two ops whose frames overlap, one of them writing, are ordered by edges or an ordered lane;
//  3. no frame ends above its tier's arena, and no arena is larger than its budget;
//  4. a body leaves the state that it found, one version on, and at rest every home is current;
//  5. every trainable chunk set is updated exactly once per step;
//  6. every micro-batch passes every block once, backward down to the lowest block that trains, and finds
//  nothing stale;
//  7. every block finds in its streams what the graph says (verify_streams.h);
//  8. a gather passes on the content that it reads, and a reduction sums one accumulator of each device;
//  9. of several nodes: a cut is updated by its owner alone, from the parts of all nodes in their order, and
//  arrives once per step everywhere else.
// Near-linear in the number of ops.
// Error: ErrorKind::internal, naming the ops and bytes.
Result<void> verify_plan(const Plan&, const ModelGraph&);

}  // namespace tidepool
