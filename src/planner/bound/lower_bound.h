// lower_bound() is the fewest bytes that any placement moves over each link in a steady step, for this model,
// these budgets and the declared working set. Derived in docs/lower-bounds.md.
#pragma once

#include <array>
#include <vector>

#include "tidepool/model_graph.h"
#include "tidepool/plan.h"

namespace tidepool {

std::array<Bytes, link_count> lower_bound(const Plan&, const ModelGraph&);

// Saving is content that could stay in a tier over a span of the step program's circle instead of moving:
// holding all `bytes` saves `saved` bytes of a link, holding a part saves that part. A negative begin lies in
// the turn before.
struct Saving {
  i32 begin = 0, end = 0;
  u64 bytes = 0;
  u64 saved = 0;
};
// Most bytes that can be saved with capacity[p] bytes at position p: a min-cost flow along the circle, cut at
// position 0. Content that crosses the cut may be held on one side only, and then saves half.
u64 most_saved(const std::vector<Saving>&, const std::vector<u64>& capacity);

// Fewest bytes that a node sends, and as many that it receives, in a step, averaged over the nodes: a node
// that does not update an element must receive it once, and its fp32 part of the gradient must leave it once
// per use of the window: the uses' sums over all nodes are added last, as on one node.
Bytes net_lower_bound(const Plan&, const ModelGraph&);

}  // namespace tidepool
