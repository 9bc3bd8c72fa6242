// Replays a plan symbolically. The room does not stand on the planner, so that the planner's mistakes are
// found here.
#include "planner/verify/verify.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "planner/verify/frame_map.h"
#include "planner/verify/happens_before.h"
#include "planner/verify/verify_commit.h"
#include "planner/verify/verify_lookup.h"
#include "planner/verify/verify_operands.h"
#include "planner/verify/verify_pieces.h"
#include "planner/verify/verify_streams.h"
#include "planner/verify/verify_units.h"

namespace tidepool {
namespace {

Error fault(std::string message) {
  return {ErrorKind::internal, "plan refused: " + std::move(message) +
                                   ". This is a bug in the planner; please report it with config.yaml"};
}

std::string place(const Frame& f) {
  return f.tier == Tier::device ? fmt::format("device {}", f.device) : std::string(name(f.tier));
}

std::string describe(const Plan& plan, SegmentKind kind, u32 i) {
  const Op& op = plan.segment(kind).ops[i];
  std::string text = fmt::format("{} op {} ({} on {}", name(kind), i, name(op.kind), name(op.lane.kind));
  if (plan.devices > 1 && op.lane.device != host_device) text += fmt::format(" of device {}", op.lane.device);
  if (op.block != none) text += fmt::format(", block {}", op.block);
  if (op.window != none) text += fmt::format(", window {}", op.window);
  if (op.cut != none) text += fmt::format(" cut {}", op.cut);
  return text + ")";
}

// Content says what a byte range holds, and which ops touched it since it was last overwritten.
struct Content {
  ChunkId chunk{none};
  u64 version = 0;
  u64 origin = 0;  // offset in the tier of the chunk's first byte
  u32 writer = none;
  std::vector<u32> readers;
  bool persists = false;  // the writer is skipped in steps that are not committed
};

class Verifier {
 public:
  Verifier(const Plan& plan, const ModelGraph& graph)
      : plan_(plan), graph_(graph), order_(plan.devices, plan.nodes) {
    base_.assign(plan.chunks.size(), 0);
  }

  Result<void> verify() {
    TRY(check_shape());
    TRY(check_updates());
    if (const std::string wrong = wrong_with_units(plan_, graph_); !wrong.empty()) return fault(wrong);
    if (const std::string wrong = wrong_with_commit(plan_, graph_); !wrong.empty()) return fault(wrong);
    if (const std::string wrong = wrong_with_lookup(plan_, graph_); !wrong.empty()) return fault(wrong);
    for (const Segment& segment : plan_.segments) TRY(check_passes(segment));
    using enum SegmentKind;
    const SegmentKind order[] = {forward_backward, body, body, body, drain, evaluation, evaluation,
                                 forward_backward, drain};
    std::vector<Snapshot> after_body;
    for (u32 i = 0; i < std::size(order); ++i) {
      TRY(replay(order[i], i == 0 ? nullptr : find_link(order[i - 1], order[i])));
      if (order[i] == body) after_body.push_back(snapshot());
      if (order[i] == drain || order[i] == evaluation) TRY(check_homes());
    }
    if (after_body[1] != after_body[2]) return fault("the state after a body is not the state before it");
    return {};
  }

 private:
  // ---- 3 and 5: without replaying ---------------------------------------------------------------

  Result<void> check_shape() const {
    if (plan_.devices == 0 || plan_.devices > devices_max)
      return fault(fmt::format("it has {} devices, of at most {}", plan_.devices, devices_max));
    if (plan_.nodes == 0 || plan_.nodes > nodes_max || plan_.node >= plan_.nodes)
      return fault(fmt::format("it is of node {} of {}", plan_.node, plan_.nodes));
    for (u32 t = 0; t < tier_count; ++t) {
      const TierUse& use = plan_.tiers[t];
      if (use.planned_peak > use.budget)
        return fault(fmt::format("{} arena of {} bytes exceeds the budget of {} bytes",
                                 name(static_cast<Tier>(t)), use.planned_peak.value, use.budget.value));
    }
    if (plan_.precision == Precision::fp16 && !plan_.clipping && !plan_.speculates && trains(graph_))
      return fault("fp16 updates do not wait to see whether the gradient has overflowed");
    if (plan_.speculates && (plan_.clipping || plan_.versions < 2))
      return fault("its updates speculate, but they also wait, or no commit undoes them");
    for (const Segment& segment : plan_.segments)
      for (u32 i = 0; i < segment.ops.size(); ++i) TRY(check_op(segment, i));
    return {};
  }

  Result<void> check_op(const Segment& segment, u32 i) const {
    const Op& op = segment.ops[i];
    for (OpId dep : segment.deps_of(op))
      if (index(dep) >= i) return fault(describe(plan_, segment.kind, i) + " depends on a later op");
    const auto operands = segment.operands_of(op);
    for (const Operand& o : operands) {
      Bytes sum{};
      for (u32 c = 0; c < o.count; ++c) sum += plan_.chunks[index(o.first) + c].bytes;
      if (sum != o.frame.bytes)
        return fault(describe(plan_, segment.kind, i) + " has a frame of the wrong size");
      if (o.frame.device != 0 && (o.frame.tier != Tier::device || o.frame.device >= plan_.devices))
        return fault(fmt::format("{} names device {} of {}", describe(plan_, segment.kind, i), o.frame.device,
                                 plan_.devices));
      const TierUse& use = plan_.tiers[static_cast<u32>(o.frame.tier)];
      if (o.frame.end() > use.planned_peak.value)
        return fault(fmt::format("{} ends at byte {} of a {} arena of {}", describe(plan_, segment.kind, i),
                                 o.frame.end(), name(o.frame.tier), use.planned_peak.value));
    }
    const std::string wrong = wrong_with_operands(plan_, graph_, op, operands);
    if (!wrong.empty()) return fault(describe(plan_, segment.kind, i) + " " + wrong);
    return {};
  }

  std::vector<u32> updates_in(SegmentKind kind) const {
    std::vector<u32> counts(plan_.chunks.size(), 0);
    const Segment& segment = plan_.segment(kind);
    for (const Op& op : segment.ops)
      if (op.kind == OpKind::update || op.kind == OpKind::direction || op.kind == OpKind::receive)
        for (const Operand& o : segment.operands_of(op))
          if (writes(o.access)) ++counts[index(o.first)];
    return counts;
  }

  Result<void> check_updates() const {
    using enum SegmentKind;
    const auto first = updates_in(forward_backward), body_ = updates_in(body), drain_ = updates_in(drain);
    for (u32 id = 0; id < plan_.chunks.size(); ++id) {
      const Chunk& chunk = plan_.chunks[id];
      if (!is_persistent(chunk)) continue;  // gradients, which updates only read
      const bool here = chunk.kind == Kind::param || chunk.owner == plan_.node;
      const u32 expected = graph_.windows[chunk.window].trainable && here ? 1 : 0;
      if (body_[id] != expected || first[id] + drain_[id] != expected)
        return fault(
            fmt::format("chunk {} ({} of window {}) is updated {} times in a body and {} times in "
                        "forward-backward + drain, not {}",
                        id, plan_.state_slots.name(chunk.kind), chunk.window, body_[id],
                        first[id] + drain_[id], expected));
    }
    return {};
  }

  // ---- 6: every micro-batch passes every block once, and finds current parameters -------------------

  // Versions count from the segment's start, so this proves that nothing is stale: with clipping a body's
  // blocks find parameters that were updated once; in all other segments, the initial parameters.
  Result<void> check_passes(const Segment& segment) {
    before_sums_ = versions_before_sums(plan_, segment);
    const bool steps = segment.kind == SegmentKind::body || segment.kind == SegmentKind::forward_backward;
    const u32 blocks = static_cast<u32>(graph_.blocks.size());
    std::vector<u32> forward(blocks * plan_.micro_batches, 0), backward = forward;
    for (u32 i = 0; i < segment.ops.size(); ++i) {
      const Op& op = segment.ops[i];
      const bool passes =
          op.kind == OpKind::forward || op.kind == OpKind::backward || op.kind == OpKind::recall;
      if (passes) {
        if (op.block >= blocks || op.micro_batch >= plan_.micro_batches || op.piece >= plan_.pieces)
          return fault(describe(plan_, segment.kind, i) + " names no block, micro-batch or piece");
        if (plan_.node_of(op.micro_batch) != plan_.node ||
            plan_.device_of(op.block, op.micro_batch) != op.lane.device)
          return fault(describe(plan_, segment.kind, i) +
                       " runs a block or micro-batch of another node or device");
        if (op.kind != OpKind::recall)
          ++(op.kind == OpKind::forward ? forward
                                        : backward)[op.block * plan_.micro_batches + op.micro_batch];
      }
      if (passes || op.kind == OpKind::gradient || op.kind == OpKind::reduce_scatter)
        for (const Operand& o : segment.operands_of(op)) TRY(check_fresh(segment, i, o));
    }
    for (const StreamFault& found :
         {check_streams(plan_, graph_, segment), check_pieces(plan_, graph_, segment)})
      if (found.op != none) return fault(describe(plan_, segment.kind, found.op) + " " + found.text);
    if (!steps || !trains(graph_)) return {};
    const u32 last = last_backward_block(graph_);
    for (u32 b = 0; b < blocks; ++b)
      for (u32 m = 0; m < plan_.micro_batches; ++m) {
        const u64 at = b * plan_.micro_batches + m;
        const u32 here = plan_.node_of(m) == plan_.node ? plan_.pieces : 0;
        if (backward[at] != (b >= last ? here : 0u) || forward[at] != (b + 1 == blocks ? 0u : here))
          return fault(
              fmt::format("in {} block {} runs forward {} times and backward {} times for micro-batch {}",
                          name(segment.kind), b, forward[at], backward[at], m));
      }
    return {};
  }

  Result<void> check_fresh(const Segment& segment, u32 i, const Operand& o) const {
    const Chunk& chunk = plan_.chunk(o.first);
    const OpKind kind = segment.ops[i].kind;
    const bool gradient = kind == OpKind::gradient || kind == OpKind::reduce_scatter;
    if (!(gradient ? chunk.kind == Kind::grad_accum : chunk.kind == Kind::param)) return {};
    if (kind == OpKind::reduce_scatter && o.access == Access::write) return {};
    const bool updated =
        segment.kind == SegmentKind::body && plan_.clipping && graph_.windows[chunk.window].trainable;
    const bool reduced = kind == OpKind::gradient && plan_.replicas() > 1;
    const u32 before = gradient && chunk.instance == 0 ? before_sums_[chunk.window] : 0;
    const u32 accumulated = before + (reduced ? 1 : plan_.micro_batches_per_replica() * plan_.pieces);
    const u32 expected = gradient ? accumulated : updated ? 1 : 0;
    if (o.version == expected) return {};
    return fault(fmt::format("{} reads {} of window {} at version {}, not {}",
                             describe(plan_, segment.kind, i), name(chunk.kind), chunk.window, o.version,
                             expected));
  }

  // ---- replay -------------------------------------------------------------------------------------

  const Link* find_link(SegmentKind from, SegmentKind to) const {
    for (const Link& link : plan_.links)
      if (link.from == from && link.to == to) return &link;
    return nullptr;
  }

  // At rest only homes hold anything: the bytes beside them may be used for other things.
  void place_homes() {
    contents_ = {};
    for (u32 id = 0; id < plan_.homes.size(); ++id)
      if (plan_.homes[id].bytes.value > 0)
        contents_.assign(plan_.homes[id],
                         {.chunk = ChunkId{id}, .version = base_[id], .origin = plan_.homes[id].offset});
  }

  Result<void> replay(SegmentKind kind, const Link* link) {
    if (link == nullptr) {
      order_.rest();
      place_homes();
    }
    const Segment& segment = plan_.segment(kind);
    const u32 before = run_begin_;
    run_begin_ = order_.size();
    kind_of_run_.push_back({run_begin_, kind});
    u64 edge = 0;
    for (u32 i = 0; i < segment.ops.size(); ++i) {
      const Op& op = segment.ops[i];
      deps_.clear();
      for (OpId dep : segment.deps_of(op)) deps_.push_back(run_begin_ + index(dep));
      for (; link != nullptr && edge < link->edges.size() && index(link->edges[edge].to) == i; ++edge)
        deps_.push_back(before + index(link->edges[edge].from));
      const u32 self = order_.add(op.lane, deps_);
      for (const Operand& o : segment.operands_of(op)) TRY(visit(op, o, self));
    }
    if (link != nullptr && edge != link->edges.size()) return fault("a link edge names no op");
    count_writes(segment);
    return {};
  }

  void count_writes(const Segment& segment) {
    std::vector<u32> left(plan_.chunks.size(), 0);
    for (const Op& op : segment.ops)
      if (!is_movement(op.kind))
        for (const Operand& o : segment.operands_of(op))
          if (writes(o.access))
            for (u32 c = 0; c < o.count; ++c) left[index(o.first) + c] = version_left(o);
    for (u32 id = 0; id < left.size(); ++id) base_[id] += left[id];
  }

  std::string who(u32 global) const {
    auto run = std::upper_bound(kind_of_run_.begin(), kind_of_run_.end(), global,
                                [](u32 g, const auto& r) { return g < r.first; });
    --run;
    return describe(plan_, run->second, global - run->first);
  }

  Result<void> visit(const Op& op, const Operand& o, u32 self) {
    u64 offset = o.frame.offset;
    for (u32 c = 0; c < o.count; ++c) {
      const ChunkId id{index(o.first) + c};
      Frame frame = o.frame;
      frame.offset = offset;
      frame.bytes = plan_.chunk(id).bytes;
      offset = frame.end();
      if (reads(o.access)) TRY(check_read(op, o, id, frame, self));
      if (writes(o.access)) TRY(check_write(op, o, id, frame, self));
    }
    return {};
  }

  Result<void> unordered(u32 a, u32 b, const Frame& f) const {
    return fault(fmt::format("{} and {} both touch {} bytes [{}, {}) and nothing orders them", who(a), who(b),
                             place(f), f.offset, f.end()));
  }

  Result<void> check_read(const Op& op, const Operand& o, ChunkId id, const Frame& frame, u32 self) {
    const u64 expected = base_[index(id)] + o.version;
    u32 clash = none;
    const Content* wrong = nullptr;
    bool empty = false, missing = false;
    contents_.visit(frame, [&](u64, u64, Content& c) {
      if (c.chunk == ChunkId{none})
        empty = true;
      else if (c.chunk != id || c.version != expected || c.origin != frame.offset)
        wrong = &c;
      missing |= c.persists && !op.persists;
      if (c.writer != none && c.writer != self && !order_.before(c.writer, self)) clash = c.writer;
      if (c.readers.empty() || c.readers.back() != self) order_.add_reader(c.readers, self);
    });
    if (empty)
      return fault(fmt::format("{} reads chunk {} from {} byte {}, where nothing is", who(self), index(id),
                               place(frame), frame.offset));
    if (wrong != nullptr)
      return fault(fmt::format("{} reads chunk {} version {} from {} byte {} but finds chunk {} version {}",
                               who(self), index(id), expected, place(frame), frame.offset,
                               index(wrong->chunk), wrong->version));
    if (missing) return fault(who(self) + " reads what only steps that are committed write");
    if (clash != none) return unordered(clash, self, frame);
    return {};
  }

  Result<void> check_write(const Op& op, const Operand& o, ChunkId id, const Frame& frame, u32 self) {
    u32 clash = none;
    const auto test = [&](u32 other) {
      if (other != none && other != self && !order_.before(other, self)) clash = other;
    };
    contents_.visit(frame, [&](u64, u64, Content& c) {
      test(c.writer);
      for (u32 reader : c.readers) test(reader);
    });
    if (clash != none) return unordered(clash, self, frame);
    const u64 left = base_[index(id)] + o.version + (o.access == Access::read_write ? 1 : 0);
    CHECK(!is_movement(op.kind) || o.access == Access::write, self);
    contents_.assign(
        frame,
        {.chunk = id, .version = left, .origin = frame.offset, .writer = self, .persists = op.persists});
    return {};
  }

  // ---- 4: the state that a body leaves --------------------------------------------------------------

  struct Piece {
    Tier tier{};
    u16 device = 0;
    u64 begin = 0, end = 0;
    ChunkId chunk{};
    bool stale = false;  // older than the newest version: no read can ask for it, so it counts as empty
    bool operator==(const Piece&) const = default;
  };
  using Snapshot = std::vector<Piece>;

  Snapshot snapshot() {
    Snapshot pieces;
    for (u16 d = 0; d < plan_.devices; ++d) add_pieces(Tier::device, d, pieces);
    add_pieces(Tier::host, 0, pieces);
    add_pieces(Tier::disk, 0, pieces);
    return pieces;
  }

  void add_pieces(Tier tier, u16 device, Snapshot& pieces) {
    const Frame all{
        .tier = tier, .device = device, .bytes = plan_.tiers[static_cast<u32>(tier)].planned_peak};
    contents_.visit(all, [&](u64 begin, u64 end, Content& c) {
      if (c.chunk == ChunkId{none}) return;
      const Piece piece{tier, device, begin, end, c.chunk, base_[index(c.chunk)] != c.version};
      const bool same = !pieces.empty() && pieces.back().tier == tier && pieces.back().device == device &&
                        pieces.back().end == begin && pieces.back().chunk == piece.chunk &&
                        pieces.back().stale == piece.stale;
      if (same)
        pieces.back().end = end;
      else
        pieces.push_back(piece);
    });
  }

  Result<void> check_homes() {
    for (u32 id = 0; id < plan_.homes.size(); ++id) {
      if (plan_.homes[id].bytes.value == 0) continue;
      bool current = true;
      contents_.visit(plan_.homes[id], [&](u64, u64, Content& c) {
        current = current && c.chunk == ChunkId{id} && c.version == base_[id];
      });
      if (!current) return fault(fmt::format("at rest the home of chunk {} is not current", id));
    }
    return {};
  }

  const Plan& plan_;
  const ModelGraph& graph_;
  FrameMap<Content> contents_;
  HappensBefore order_;
  std::vector<u64> base_;  // by chunk: versions made before this run
  std::vector<u32> before_sums_;
  std::vector<std::pair<u32, SegmentKind>> kind_of_run_;
  u32 run_begin_ = 0;
  std::vector<u32> deps_;
};

}  // namespace

Result<void> verify_plan(const Plan& plan, const ModelGraph& graph) { return Verifier(plan, graph).verify(); }

}  // namespace tidepool
