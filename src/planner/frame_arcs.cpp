#include "planner/frame_arcs.h"

#include <algorithm>
#include <tuple>

namespace tidepool {
namespace {

struct FrameTouch {
  FrameArc place;  // without ops
  u32 op = 0;
  bool fills = false;  // overwrites without reading: the old content is gone

  auto key() const { return std::tuple(place.chunk, place.tier, place.device, place.offset); }
};

std::vector<FrameTouch> touches_of(const Plan& plan, const Segment& segment) {
  std::vector<FrameTouch> touches;
  touches.reserve(segment.operands.size());
  for (u32 op = 0; op < segment.ops.size(); ++op) {
    for (const Operand& o : segment.operands_of(segment.ops[op])) {
      u64 offset = o.frame.offset;
      for (u32 i = 0; i < o.count; ++i) {
        const ChunkId chunk{index(o.first) + i};
        touches.push_back({.place = {chunk, o.frame.tier, o.frame.device, offset},
                           .op = op,
                           .fills = o.access == Access::write});
        offset += plan.chunk(chunk).bytes.value;
      }
    }
  }
  std::stable_sort(touches.begin(), touches.end(), [](const FrameTouch& a, const FrameTouch& b) {
    return std::tuple(a.key(), a.op) < std::tuple(b.key(), b.op);
  });
  return touches;
}

bool is_home(const Plan& plan, const FrameArc& place) {
  const Frame& home = plan.homes[index(place.chunk)];
  return home.bytes.value > 0 && home.tier == place.tier && home.offset == place.offset &&
         (home.tier != Tier::device || home.device == place.device);
}

// Arc of the home of a parameter that its update makes anew: the home is full until the last use.
void append_home_that_ends(std::span<const FrameTouch> touches, const Segment& segment,
                           std::vector<FrameArc>& out) {
  FrameArc arc = touches.front().place;
  const auto fill = std::find_if(touches.begin(), touches.end(), [](const FrameTouch& t) { return t.fills; });
  const bool ends = segment.kind == SegmentKind::forward_backward || segment.kind == SegmentKind::body;
  if (fill != touches.end() || segment.kind == SegmentKind::forward_backward) {
    arc.from = fill != touches.end() ? fill->op : 0;
    arc.to = ends ? touches.back().op : static_cast<u32>(segment.ops.size()) - 1;
  }
  out.push_back(arc);
}

// Appends arcs from the touches of one chunk in one frame, sorted by op. A fill ends the old content; touches
// before the first fill belong to the last fill of the turn before.
void append_arcs(std::span<const FrameTouch> touches, std::vector<FrameArc>& out) {
  u64 first_fill = 0;
  while (first_fill < touches.size() && !touches[first_fill].fills) ++first_fill;
  if (first_fill == touches.size()) return out.push_back(touches[0].place);
  for (u64 i = first_fill; i < touches.size();) {
    u64 next = i + 1;
    while (next < touches.size() && !touches[next].fills) ++next;
    FrameArc arc = touches[i].place;
    arc.from = touches[i].op;
    const bool wraps = next == touches.size() && first_fill > 0;
    arc.to = touches[wraps ? first_fill - 1 : next - 1].op;
    out.push_back(arc);
    i = next;
  }
}

}  // namespace

std::vector<FrameArc> frame_arcs(const Plan& plan, const Segment& segment) {
  std::vector<FrameArc> arcs;
  const std::vector<FrameTouch> touches = touches_of(plan, segment);
  std::vector<bool> ends(plan.homes.size(), false);
  for (u64 begin = 0; begin < touches.size();) {
    u64 end = begin + 1;
    while (end < touches.size() && touches[end].key() == touches[begin].key()) ++end;
    const auto of_place = std::span(touches).subspan(begin, end - begin);
    const ChunkId id = touches[begin].place.chunk;
    if (!is_home(plan, touches[begin].place)) {
      append_arcs(of_place, arcs);
    } else if (!plan.speculates && made_by_update(plan.chunk(id).kind, plan.precision)) {
      append_home_that_ends(of_place, segment, arcs);
      ends[index(id)] = true;
    }
    begin = end;
  }
  for (u32 id = 0; id < plan.homes.size(); ++id) {
    const Frame& home = plan.homes[id];
    if (home.bytes.value > 0 && !ends[id]) arcs.push_back({ChunkId{id}, home.tier, home.device, home.offset});
  }
  std::stable_sort(arcs.begin(), arcs.end(), [](const FrameArc& a, const FrameArc& b) {
    return std::tuple(a.chunk, a.tier, a.device, a.offset, a.from) <
           std::tuple(b.chunk, b.tier, b.device, b.offset, b.from);
  });
  return arcs;
}

}  // namespace tidepool
