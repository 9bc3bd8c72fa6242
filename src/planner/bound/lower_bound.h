// lower_bound() is the fewest bytes that any placement moves over each link in a steady step, for this model,
// these budgets and the declared working set; for a plan that moves less, and so did not need all of that
// set, the set without room to stream ahead. Derived in docs/lower-bounds.md.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "tidepool/model_graph.h"
#include "tidepool/plan.h"

namespace tidepool {

std::array<Bytes, link_count> lower_bound(const Plan&, const ModelGraph&);

// Sum over all links, in which a byte of the disk counts as several of a device's link (disk_weight).
u64 weighed(const std::array<Bytes, link_count>&);
// As lower_bound(), but of the sum of all links: each link's own bound takes all memory for that link alone.
// RETURNS: weighed bytes; none: with several nodes, or layers over devices.
std::optional<u64> weighed_lower_bound(const Plan&, const ModelGraph&);

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

// HeldGap is content between two of its uses, and what holding all of it in a tier meanwhile saves. A
// negative begin lies in the turn before.
struct HeldGap {
  i32 begin = 0, end = 0;
  u64 bytes = 0;
  u64 links = 0, disk = 0;  // bytes of the devices' links, and of the disk's
};
// HeldWindow is what a window has. If it rests on the device, its state is held there all around, which saves
// `links_at_home`, and its parameters may be.
struct HeldWindow {
  HeldGap state, gradient;  // the gradient's link is the one that the device's home saves
  std::vector<HeldGap> params;
  u64 written = 0;  // bytes of parameters whose write is saved if they are held over all gaps
  u64 links_at_home = 0;
};
struct HeldContents {
  std::vector<HeldWindow> windows;
  std::vector<HeldGap> others;  // streams and accumulators
};
// Most weighed bytes that can be saved, or a little more, with capacities of devices and host by position: by
// weak duality, from prices that subgradient steps find. `reached`: what a plan saves, which no bound is
// below.
u64 most_saved_weighed(const HeldContents&, const std::vector<u64>& of_devices,
                       const std::vector<u64>& of_host, u64 reached);

// Fewest bytes that a node sends, and as many that it receives, in a step, averaged over the nodes: a node
// that does not update an element must receive it once, and its fp32 part of the gradient must leave it once
// per use of the window: the uses' sums over all nodes are added last, as on one node.
Bytes net_lower_bound(const Plan&, const ModelGraph&);

}  // namespace tidepool
