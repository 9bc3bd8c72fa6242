#include "planner/hazards.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "planner/verify/frame_map.h"

namespace tidepool {
namespace {

// Ref is an op of one of two successive runs: run 0 or run 1.
struct Ref {
  u32 op = none;
  u8 run = 0;
  LaneId lane;
  bool operator==(const Ref&) const = default;
};

// Touches records the last writer of a byte and the readers since. For an ordered lane only the last reader
// matters, because the earlier ones are done by then.
struct Touches {
  Ref writer;
  std::vector<Ref> readers;
};

class Tracker {
 public:
  explicit Tracker(const Plan& plan) : plan_(plan) {}

  // Runs the segment, and calls edge(from, to) from every direct predecessor of each op.
  template <class Fn>
  void run(SegmentKind kind, u8 run, Fn&& edge) {
    const Segment& segment = plan_.segment(kind);
    for (u32 i = 0; i < segment.ops.size(); ++i) {
      const Ref self{.op = i, .run = run, .lane = segment.ops[i].lane};
      from_.clear();
      for (const Operand& o : segment.operands_of(segment.ops[i])) touch(self, o);
      reduce(self);
      for (const Ref& from : from_) edge(from, self);
    }
  }

 private:
  void touch(const Ref& self, const Operand& o) {
    if (writes(o.access)) {
      map_.visit(o.frame, [&](u64, u64, Touches& t) { want(t); });
      map_.assign(o.frame, {.writer = self});
      return;
    }
    map_.visit(o.frame, [&](u64, u64, Touches& t) {
      if (t.writer.op != none) from_.push_back(t.writer);
      add_reader(t, self);
    });
  }

  void want(const Touches& t) {
    if (t.writer.op != none) from_.push_back(t.writer);
    from_.insert(from_.end(), t.readers.begin(), t.readers.end());
  }

  static void add_reader(Touches& t, const Ref& self) {
    if (is_ordered(self.lane.kind))
      for (Ref& r : t.readers)
        if (r.lane == self.lane) {
          r = self;
          return;
        }
    t.readers.push_back(self);
  }

  // Drops predecessors that order already covers: earlier ops of the op's own ordered lane, and for other
  // ordered lanes all but the last.
  void reduce(const Ref& self) {
    std::sort(from_.begin(), from_.end(), [](const Ref& a, const Ref& b) {
      return std::tuple(a.lane, a.run, a.op) < std::tuple(b.lane, b.run, b.op);
    });
    u64 kept = 0;
    for (u64 i = 0; i < from_.size(); ++i) {
      const Ref& r = from_[i];
      if (r == self) continue;
      const bool ordered = is_ordered(r.lane.kind);
      if (ordered && r.lane == self.lane) continue;
      const bool covered = i + 1 < from_.size() && from_[i + 1].lane == r.lane && ordered;
      if (covered || (i + 1 < from_.size() && from_[i + 1] == r)) continue;
      from_[kept++] = r;
    }
    from_.resize(kept);
  }

  const Plan& plan_;
  FrameMap<Touches> map_;
  std::vector<Ref> from_;
};

// Leaves the tracker in the state in which the segment leaves the tiers.
void add_segment_edges(Plan& plan, SegmentKind kind, Tracker& tracker) {
  Segment& segment = plan.segments[static_cast<u32>(kind)];
  std::vector<std::vector<OpId>> deps(segment.ops.size());
  tracker.run(kind, 0, [&](const Ref& from, const Ref& to) { deps[to.op].push_back(OpId{from.op}); });
  for (u32 i = 0; i < segment.ops.size(); ++i) {
    std::sort(deps[i].begin(), deps[i].end());
    segment.ops[i].deps_begin = static_cast<u32>(segment.deps.size());
    segment.ops[i].deps_count = static_cast<u32>(deps[i].size());
    segment.deps.insert(segment.deps.end(), deps[i].begin(), deps[i].end());
  }
}

void add_link(Plan& plan, SegmentKind from, SegmentKind to, Tracker after_from) {
  Link link{.from = from, .to = to};
  after_from.run(to, 1, [&](const Ref& a, const Ref& b) {
    if (a.run == 0) link.edges.push_back({.from = OpId{a.op}, .to = OpId{b.op}});
  });
  std::sort(link.edges.begin(), link.edges.end(), [](const LinkEdge& a, const LinkEdge& b) {
    return std::tuple(a.to, a.from) < std::tuple(b.to, b.from);
  });
  plan.links.push_back(std::move(link));
}

}  // namespace

void add_edges(Plan& plan) {
  using enum SegmentKind;
  constexpr std::pair<SegmentKind, SegmentKind> linked[] = {{forward_backward, body},
                                                            {forward_backward, drain},
                                                            {body, body},
                                                            {body, drain},
                                                            {evaluation, evaluation}};
  for (u32 s = 0; s < segment_count; ++s) {
    const SegmentKind kind = static_cast<SegmentKind>(s);
    Tracker tracker(plan);
    add_segment_edges(plan, kind, tracker);
    for (const auto& [from, to] : linked)
      if (from == kind) add_link(plan, from, to, tracker);
  }
}

}  // namespace tidepool
