// TinyPlan builds plans of a few ops by hand, for tests of the engine and the executors.
#pragma once

#include <initializer_list>
#include <vector>

#include "tests/support/adamw_state.h"
#include "tidepool/plan.h"

namespace tidepool::test {

inline LaneId lane(LaneKind kind) {
  const bool device = kind <= LaneKind::comm;
  return {.device = device ? u16{0} : host_device, .kind = kind};
}

inline Frame frame(Tier tier, u64 page, u64 pages = 1) {
  return {.tier = tier, .offset = page * frame_alignment, .bytes = Bytes{pages * frame_alignment}};
}

class TinyPlan {
 public:
  TinyPlan() {
    plan.state_slots = adamw_state(plan.precision);
    for (u32 i = 0; i < segment_count; ++i) plan.segments[i].kind = static_cast<SegmentKind>(i);
  }

  // Adds one window's momentum, cut by cut, with home `home`; without a home the chunk is an activation.
  ChunkId add_chunk(Frame home) {
    const u32 id = static_cast<u32>(plan.chunks.size());
    plan.chunks.push_back({.kind = momentum(plan.state_slots),
                           .window = 0,
                           .cut = id,
                           .element_begin = 0,
                           .elements = home.bytes.value / 4,
                           .bytes = home.bytes});
    plan.homes.push_back(home);
    return ChunkId{id};
  }
  ChunkId add_transient(Kind kind, u64 pages = 1) {
    const u32 id = static_cast<u32>(plan.chunks.size());
    plan.chunks.push_back({.kind = kind,
                           .instance = id,
                           .elements = pages * frame_alignment / 4,
                           .bytes = Bytes{pages * frame_alignment}});
    plan.homes.push_back({});
    return ChunkId{id};
  }

  OpId add(SegmentKind segment_kind, OpKind kind, LaneKind lane_kind, std::initializer_list<OpId> deps = {},
           std::initializer_list<Operand> operands = {}, u8 steps_back = 0) {
    Segment& segment = plan.segments[static_cast<u32>(segment_kind)];
    const OpId id{static_cast<u32>(segment.ops.size())};
    const bool takes_batch = kind <= OpKind::backward;
    segment.ops.push_back({.kind = kind,
                           .lane = lane(lane_kind),
                           .micro_batch = takes_batch ? 0 : none,
                           .steps_back = steps_back,
                           .operands_begin = static_cast<u32>(segment.operands.size()),
                           .operands_count = static_cast<u32>(operands.size()),
                           .deps_begin = static_cast<u32>(segment.deps.size()),
                           .deps_count = static_cast<u32>(deps.size())});
    segment.operands.insert(segment.operands.end(), operands);
    segment.deps.insert(segment.deps.end(), deps);
    for (const Operand& o : operands) {
      Bytes& peak = plan.tiers[static_cast<u32>(o.frame.tier)].planned_peak;
      if (o.frame.end() > peak.value) peak = Bytes{o.frame.end()};
    }
    return id;
  }

  // Adds a copy, read or write of one chunk at `version`.
  OpId move(SegmentKind segment, LaneKind lane_kind, ChunkId chunk, u32 version, Frame from, Frame to,
            std::initializer_list<OpId> deps = {}) {
    const OpKind kind = lane_kind == LaneKind::disk_read    ? OpKind::read
                        : lane_kind == LaneKind::disk_write ? OpKind::write
                                                            : OpKind::copy;
    return add(segment, kind, lane_kind, deps,
               {{.first = chunk, .version = version, .access = Access::read, .frame = from},
                {.first = chunk, .version = version, .access = Access::write, .frame = to}});
  }

  void link(SegmentKind from, SegmentKind to, std::vector<LinkEdge> edges) {
    plan.links.push_back({.from = from, .to = to, .edges = std::move(edges)});
  }

  Plan plan;
};

}  // namespace tidepool::test
