#include "planner/explain/life.h"

#include "planner/frame_arcs.h"

namespace tidepool {

bool same_memory(const Frame& a, const Frame& b) { return a.tier == b.tier && a.device == b.device; }

Life::Life(const Plan& plan, const Segment& segment)
    : plan_(plan), segment_(segment), touches_(plan.chunks.size()) {
  collect_touches();
  collect_stays();
}

void Life::collect_touches() {
  for (u32 i = 0; i < segment_.ops.size(); ++i)
    for (const Operand& o : segment_.operands_of(segment_.ops[i])) {
      Frame frame = o.frame;
      for (u32 c = 0; c < o.count; ++c) {
        const u32 id = index(o.first) + c;
        frame.bytes = plan_.chunks[id].bytes;
        touches_[id].push_back({i, o.access, frame});
        frame.offset += frame.bytes.value;
      }
    }
}

void Life::collect_stays() {
  for (const FrameArc& arc : frame_arcs(plan_, segment_)) {
    TierStay stay{.chunk = arc.chunk,
                  .frame = {arc.tier, arc.device, arc.offset, plan_.chunk(arc.chunk).bytes},
                  .whole = arc.permanent()};
    if (!stay.whole) {
      stay.begin = arc.from;
      stay.end = arc.to >= arc.from ? arc.to : arc.to + ops();
    }
    stays_.push_back(stay);
  }
}

bool Life::covers(const TierStay& stay, u32 op) const {
  return stay.whole || (op >= stay.begin && op <= stay.end) || op + ops() <= stay.end;
}

std::optional<Life::Next> Life::next(ChunkId id, u32 after, const Frame* in) const {
  const auto wanted = [&](const Touch& t) { return in == nullptr || same_memory(t.frame, *in); };
  for (const Touch& t : touches(id))
    if (t.op > after && wanted(t)) return Next{t, t.op - after};
  if (!circular()) return std::nullopt;
  for (const Touch& t : touches(id))
    if (t.op <= after && wanted(t)) return Next{t, t.op + ops() - after};
  return std::nullopt;
}

Bytes Life::in_use(const Frame& memory, u32 op) const {
  Bytes sum{};
  for (const TierStay& s : stays_)
    if (same_memory(s.frame, memory) && covers(s, op)) sum += s.frame.bytes;
  return sum;
}

}  // namespace tidepool
