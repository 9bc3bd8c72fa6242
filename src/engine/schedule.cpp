#include "engine/schedule.h"

#include <algorithm>

#include "base/check.h"

namespace tidepool {

Schedule::Schedule(const Plan& plan) : plan_(plan) {
  for (const Segment& segment : plan.segments) {
    for (const Op& op : segment.ops) lanes_.push_back(op.lane);
    ops_max_ = std::max(ops_max_, static_cast<u32>(segment.ops.size()));
  }
  std::sort(lanes_.begin(), lanes_.end());
  lanes_.erase(std::unique(lanes_.begin(), lanes_.end()), lanes_.end());
  for (u32 i = 0; i < segment_count; ++i) segments_[i] = index_lanes(plan.segments[i]);
  for (const Link& link : plan.links) links_.push_back(index_link(link));
}

SegmentLanes Schedule::index_lanes(const Segment& segment) const {
  SegmentLanes out;
  const u32 ops = static_cast<u32>(segment.ops.size());
  out.lane_of.resize(ops);
  out.position.resize(ops);
  out.ops.resize(ops);
  out.begin.assign(lanes_.size() + 1, 0);
  for (u32 i = 0; i < ops; ++i) {
    out.lane_of[i] = lane_number(segment.ops[i].lane);
    out.position[i] = out.begin[out.lane_of[i] + 1]++;
  }
  for (u32 lane = 0; lane < lanes_.size(); ++lane) out.begin[lane + 1] += out.begin[lane];
  for (u32 i = 0; i < ops; ++i) out.ops[out.begin[out.lane_of[i]] + out.position[i]] = i;
  return out;
}

LinkIndex Schedule::index_link(const Link& link) const {
  LinkIndex out{.from = link.from, .to = link.to};
  const u64 ops = plan_.segment(link.to).ops.size();
  out.begin.assign(ops + 1, 0);
  CHECK(std::is_sorted(link.edges.begin(), link.edges.end(),
                       [](const LinkEdge& a, const LinkEdge& b) { return a.to < b.to; }));
  for (const LinkEdge& edge : link.edges) {
    CHECK(index(edge.to) < ops, index(edge.to), ops);
    ++out.begin[index(edge.to) + 1];
    out.deps.push_back(edge.from);
  }
  for (u64 i = 0; i < ops; ++i) out.begin[i + 1] += out.begin[i];
  return out;
}

u32 Schedule::lane_number(LaneId lane) const {
  const auto found = std::lower_bound(lanes_.begin(), lanes_.end(), lane);
  CHECK(found != lanes_.end() && *found == lane, static_cast<u32>(lane.kind), lane.device);
  return static_cast<u32>(found - lanes_.begin());
}

const LinkIndex* Schedule::link(SegmentKind from, SegmentKind to) const {
  for (const LinkIndex& link : links_) {
    if (link.from == from && link.to == to) return &link;
  }
  return nullptr;
}

}  // namespace tidepool
