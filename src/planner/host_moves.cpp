#include "planner/host_moves.h"

#include <algorithm>

#include "planner/commit_ops.h"

namespace tidepool {
namespace {

using What = HostUse::What;

class HostMoves {
 public:
  HostMoves(const ResidenceInput& in, const DeviceTier& device, HostTier& tier)
      : layout_(in.layout), program_(in.program), device_(device), out_(tier), swap_(layout_.chunks.size()) {
    out_.homes.resize(layout_.chunks.size());
    if (out_.versions < 2) return;
    out_.slots = make_slots(layout_, out_.disk_bytes);
    out_.second_slot = out_.disk_bytes;
    out_.disk_bytes = out_.second_slot * out_.versions;
  }

  void move(const std::vector<PlacedGroup>& groups) {
    move_batches();
    move_rows();
    for (const PlacedGroup& b : groups) {
      for (u64 u = b.group.first; u <= b.group.last; ++u) move_use(b, u);
      if (b.group.first == 0 && b.chain->peer != none) receive(b);
      if (b.group.read && (b.chain->persistent || b.chain->peer == none)) move_up(b);
      if (needs_write(b)) move_down(b);
    }
  }

 private:
  i32 turn() const { return program_.positions(); }

  void add(Movement m, i32 position, u8 segments) {
    m.segments = segments;
    m.when.position = position;
    if (segments != 0) out_.movements.push_back(m);
  }

  Place host(u32 arc) const { return {.tier = Tier::host, .arc = arc}; }
  Place device(u32 arc, u32 device) const {
    return {.tier = Tier::device, .arc = arc, .device = static_cast<u16>(device)};
  }
  // With one version, if parameters die, a gradient lies in its parameter's frame: the parameter's last read
  // comes before the gradient exists, and its next write comes after the gradient was read.
  ChunkId whose_frame(ChunkId chunk) const {
    const Chunk& c = layout_.chunk(chunk);
    if (out_.versions > 1 || c.kind != Kind::grad || !layout_.params_die(c.window, c.cut)) return chunk;
    const ChunkId param = offset_id(layout_.windows[c.window].param, c.cut);
    return out_.home_arcs[index(param)] == none ? param : chunk;
  }

  static Place node(u32 node) { return {.node = node}; }

  Place disk(ChunkId content) {
    const ChunkId chunk = whose_frame(content);
    Frame& frame = swap_[index(chunk)];
    const bool has_slots = out_.versions > 1 && out_.slots[index(chunk)].bytes.value > 0;
    if (has_slots) {
      frame = out_.homes[index(chunk)] = out_.slots[index(chunk)];
    } else if (frame.bytes.value == 0) {
      frame = {.tier = Tier::disk, .offset = out_.disk_bytes.value, .bytes = layout_.chunk(chunk).bytes};
      out_.disk_bytes += frame.bytes;
      if (is_persistent(layout_.chunk(chunk).kind)) out_.homes[index(chunk)] = frame;
    }
    return {.tier = Tier::disk, .frame = frame};
  }

  void move_batches() {
    for (u32 a = 0; a < out_.arcs.size(); ++a) {
      const Arc& arc = out_.arcs[a];
      if (layout_.chunk(arc.first).kind != Kind::batch) continue;
      const i32 p = arc.span.begin;
      const ProgramOp& op = program_.ops[static_cast<u64>(p)];
      const u32 replica = layout_.chunk(arc.first).instance % layout_.replicas;
      const ChunkId of_replica_0{index(arc.first) - replica};
      for (u32 d = 0; d < device_.arcs.size(); ++d)
        if (device_.arcs[d].first == of_replica_0 && device_.arcs[d].span.begin == p)
          add({.chunk = arc.first,
               .from = host(a),
               .to = device(d, device_.arcs[d].device + replica),
               .when = {p, Phase::after},
               .need = p},
              p, in_first | in_body | (op.sweep == 0 ? in_evaluation : 0));
    }
  }

  // Rows of a table come into the host, and from there to the device that looks them up.
  void move_rows() {
    if (!layout_.lookup.on()) return;
    const WindowChunks& table = layout_.windows[layout_.lookup.window];
    for (u32 cut = 0; cut < table.cuts; ++cut)
      if (const ChunkId id = offset_id(table.param, cut); out_.home_arcs[index(id)] == none) disk(id);
    for (u32 a = 0; a < out_.arcs.size(); ++a)
      if (layout_.chunk(out_.arcs[a].first).kind == Kind::rows) move_rows_of(a);
  }

  void move_rows_of(u32 a) {
    const Arc& arc = out_.arcs[a];
    const u32 replica = layout_.chunk(arc.first).instance % layout_.replicas;
    const ChunkId of_replica_0{index(arc.first) - replica};
    for (u32 d = 0; d < device_.arcs.size(); ++d) {
      const Arc& there = device_.arcs[d];
      if (there.first != of_replica_0 || there.placed.begin != arc.span.begin) continue;
      const ProgramOp& op = program_.ops[static_cast<u64>(there.span.begin)];
      const u8 segments = in_first | in_body | (op.sweep == 0 ? in_evaluation : 0);
      add({.chunk = arc.first,
           .to = host(a),
           .need = there.span.begin,
           .looks_up = program_.step_micro_batch(op.micro_batch, replica)},
          arc.placed.begin, segments);
      add({.chunk = arc.first,
           .from = host(a),
           .to = device(d, there.device + replica),
           .need = there.span.begin},
          arc.span.begin, segments);
    }
  }

  i32 on_circle(i32 position) const { return position < 0 ? position + turn() : position % turn(); }

  void send(const PlacedGroup& b, const HostUse& use, u32 to) {
    add({.chunk = b.chain->chunk,
         .from = host(b.arc),
         .to = node(to),
         .when = {0, Phase::after},
         .need = use.position},
        on_circle(use.position), use.segments);
  }

  // Sends updated parameters to all other nodes.
  void send_updated(const PlacedGroup& b, const HostUse& use) {
    if (layout_.chunk(b.chain->chunk).kind != Kind::param || b.chain->peer != none) return;
    for (u32 i = 1; i < layout_.nodes; ++i) send(b, use, (layout_.node + i) % layout_.nodes);
  }

  // Adds the copy between device and host at a use, or what goes to other nodes.
  void move_use(const PlacedGroup& b, u64 u) {
    const HostUse& use = b.chain->use(u);
    if (use.what == What::updates || use.what == What::makes) return send_updated(b, use);
    if (use.what == What::sends) return send(b, use, layout_.chunk(b.chain->chunk).owner);
    if (use.what == What::combines || use.what == What::sums) return;
    Movement m{.chunk = b.chain->chunk, .when = {0, use.phase}, .need = use.position};
    const bool down = use.what == What::arrives;
    const Place there = device(use.device_arc, use.device);
    m.from = down ? there : host(b.arc);
    m.to = down ? host(b.arc) : there;
    add(m, on_circle(use.position), use.segments);
  }

  // Adds the arrival of what another node sends.
  void receive(const PlacedGroup& b) {
    const HostUse& first = b.chain->use(0);
    add({.chunk = b.chain->chunk, .from = node(b.chain->peer), .to = host(b.arc), .need = first.position},
        on_circle(out_.arcs[b.arc].placed.begin), first.segments);
  }

  // Adds the read that begins a group. A read that starts in the turn before belongs to the segments that end
  // with a backward; a segment that starts from rest reads at its own beginning instead.
  void move_up(const PlacedGroup& b) {
    const HostUse& first = b.chain->use(b.group.first);
    const i32 begin = out_.arcs[b.arc].placed.begin;
    Movement m{.chunk = b.chain->chunk, .from = disk(b.chain->chunk), .to = host(b.arc)};
    m.need = out_.arcs[b.arc].span.begin;
    // False if the first use lies in the turn before as well: then the read runs in the segments of that use.
    const bool turn_before = begin < 0 && m.need >= 0;
    const u8 own = first.what == What::makes ? u8{0} : turn_before ? u8{in_first | in_body} : first.segments;
    add(m, on_circle(begin), own);
    u8 missed = 0;
    for (u64 u = b.group.first; u <= b.group.last; ++u)
      if (b.chain->use(u).what != What::makes && position_of(*b.chain, u, turn()) + b.group.shift >= 0)
        missed |= b.chain->use(u).segments & (in_first | in_evaluation);
    if (begin >= 0) missed &= static_cast<u8>(~own);
    add(m, std::max(begin, 0), missed);
  }

  // True if the content must be written to disk: updated content to its home, spilled content until it is
  // read back.
  bool needs_write(const PlacedGroup& b) const {
    if (b.chain->home_host) return false;
    for (u64 u = b.group.first; u <= b.group.last; ++u) {
      const What what = b.chain->use(u).what;
      if (b.chain->persistent && (what == What::updates || what == What::makes)) return true;
    }
    return !b.chain->persistent && !b.group.read && b.group.last + 1 < b.chain->uses.size();
  }

  void move_down(const PlacedGroup& b) {
    u64 last_made = b.group.first;  // the last use that changes the content
    for (u64 u = b.group.first; u <= b.group.last; ++u)
      if (b.chain->use(u).what != What::supplies) last_made = u;
    for (u64 u = b.group.first; u <= b.group.last; ++u) {
      const HostUse& use = b.chain->use(u);
      if (use.what == What::supplies || (!b.chain->persistent && u != last_made)) continue;
      // Content that dies before it is read again is written home only in a drain, in order to rest there;
      // and for a commit.
      const bool dies = out_.versions == 1 && use.what == What::makes &&
                        b.group.last + 1 == b.chain->uses.size() && program_.options.clipping;
      add({.chunk = b.chain->chunk,
           .from = host(b.arc),
           .to = disk(b.chain->chunk),
           .when = {0, Phase::after},
           .need = use.position},
          on_circle(use.position), dies ? u8{in_drain} : use.segments);
    }
  }

  const Layout& layout_;
  const Program& program_;
  const DeviceTier& device_;
  HostTier& out_;
  std::vector<Frame> swap_;  // by chunk
};

}  // namespace

i32 position_of(const HostChain& chain, u64 unrolled, i32 turn) {
  return chain.use(unrolled).position + static_cast<i32>(unrolled / chain.uses.size()) * turn;
}

void move_host_chunks(const ResidenceInput& in, const DeviceTier& device,
                      const std::vector<PlacedGroup>& groups, HostTier& tier) {
  HostMoves(in, device, tier).move(groups);
}

}  // namespace tidepool
