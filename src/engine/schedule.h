// Schedule is the plan as the engine walks it: ops by lane, edges from the previous segment by op. Built
// once.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "tidepool/plan.h"

namespace tidepool {

// Edges of one linked pair of segments, by the op that they lead to.
struct LinkIndex {
  SegmentKind from{};
  SegmentKind to{};
  std::vector<u32> begin;  // [ops of `to` + 1]
  std::vector<OpId> deps;  // ops of `from`

  std::span<const OpId> deps_of(OpId op) const {
    return std::span(deps).subspan(begin[index(op)], begin[index(op) + 1] - begin[index(op)]);
  }
};

struct SegmentLanes {
  std::vector<u32> lane_of;   // [op] number of its lane
  std::vector<u32> position;  // [op] place in its lane
  std::vector<u32> ops;       // grouped by lane, in plan order
  std::vector<u32> begin;     // [lanes + 1]

  u32 count(u32 lane) const { return begin[lane + 1] - begin[lane]; }
  OpId at(u32 lane, u32 place) const { return OpId{ops[begin[lane] + place]}; }
};

// REQUIRES: the plan outlives this object.
class Schedule {
 public:
  explicit Schedule(const Plan&);

  const Plan& plan() const { return plan_; }
  std::span<const LaneId> lanes() const { return lanes_; }
  u32 lane_number(LaneId) const;  // REQUIRES: a lane of the plan
  const SegmentLanes& of(SegmentKind kind) const { return segments_[static_cast<u32>(kind)]; }
  const LinkIndex* link(SegmentKind from, SegmentKind to) const;  // null: `to` starts at rest
  u32 ops_max() const { return ops_max_; }                        // most ops of any segment

 private:
  SegmentLanes index_lanes(const Segment&) const;
  LinkIndex index_link(const Link&) const;

  const Plan& plan_;
  std::vector<LaneId> lanes_;
  std::array<SegmentLanes, segment_count> segments_;
  std::vector<LinkIndex> links_;
  u32 ops_max_ = 0;
};

// Lanes of devices, and collectives, order each other's ops themselves (with streams and events, which work
// across the devices of one process too). All other ops are ordered by the engine, which sees completions.
constexpr bool on_device(LaneKind kind) { return kind <= LaneKind::comm; }

}  // namespace tidepool
