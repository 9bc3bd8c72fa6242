// The host tier: what the device and the updates need here, which of it rests here between uses,
// and the disk traffic of the rest.
#include <algorithm>

#include "planner/residence.h"
#include "tidepool/check.h"

namespace tidepool {
namespace {

constexpr i32 no_floor = -1'000'000'000;

// Something that needs the chunk in the host, at a position of this turn (or, negative, of the last).
struct Use {
  enum class What : u8 {
    arrives,
    supplies,
    updates,
    makes
  } what{};  // makes: by an update that does not read it
  i32 position = 0;
  u8 segments = 0;     // where it happens, if its position is in this turn
  u32 device_arc = none;
  Phase phase = Phase::after;  // of the copy
};

// One chunk's uses in order. A circular chain starts again in the next turn with what it left; others begin
// with what makes or brings the content, and end with its last use.
struct Chain {
  ChunkId chunk{};
  u16 device = 0;           // that it comes from and goes to
  bool circular = false;
  bool persistent = false;  // has a home
  std::vector<Use> uses;
  std::vector<bool> stays;  // [i]: stays from use i to the next (circular: the last to the first)
  bool home_host = false;   // rests in the host: all around, or from what makes it to its last use
};

class HostPlanner {
 public:
  HostPlanner(const ResidenceInput& in, const DeviceTier& device, Bytes shrink)
      : in_(in), layout_(in.layout), program_(in.program), device_(device) {
    const Bytes taken = in.options.host_reserved + shrink;
    budget_ = in.options.budgets.host > taken ? in.options.budgets.host - taken : Bytes{0};
    out_.homes.resize(layout_.chunks.size());
    out_.home_arcs.assign(layout_.chunks.size(), none);
    swap_.resize(layout_.chunks.size());
  }

  HostTier plan() {
    add_chains();
    Profile used(turn(), layout_.params_die());
    for (const Arc& arc : fixed_arcs()) used.add(arc.span, arc.bytes);
    for (const Chain& chain : chains_)
      for (const Group& group : groups_of(chain))
        used.add(group.arc.span, group.arc.bytes, group.arc.from_rest);
    out_.needs_least = used.peak() + in_.options.host_reserved;
    choose(used);
    build();
    out_.peak = place_arcs(out_.arcs, {.positions = turn(),
                                       .capacity = budget_,
                                       .lookahead = static_cast<i32>(in_.options.lookahead),
                                       .start = program_.first_backward}) +
                in_.options.host_reserved;
    move();
    return std::move(out_);
  }

 private:
  i32 turn() const { return program_.positions(); }
  bool clipping() const { return program_.options.clipping; }
  u8 update_segments() const { return clipping() ? in_body | in_drain : in_first | in_body; }

  // ---- chains -------------------------------------------------------------------------------

  void add_chains() {
    std::vector<std::vector<const DeviceTier::Arrival*>> arrivals(layout_.windows.size());
    for (const DeviceTier::Arrival& a : device_.arrivals) arrivals[a.window].push_back(&a);
    for (u32 w = 0; w < layout_.windows.size(); ++w) {
      if (device_.home[w]) continue;
      for (u32 cut = 0; cut < layout_.windows[w].cuts; ++cut) {
        add_param_chain(w, cut, arrivals[w]);
        for (ChunkId id : layout_.state(w, cut))
          if (layout_.chunk(id).kind != Kind::param) add_state_chain(id, w, cut);
      }
    }
    for (const DeviceTier::Departure& d : device_.departures)
      for (u16 device = 0; device < layout_.devices; ++device) {
        const Held held = held_by(layout_, d.first, d.count, d.spread, device);
        for (u32 i = 0; i < held.count; ++i) add_departure_chain(d, offset_id(held.first, i), device);
      }
    for (Chain& chain : chains_) init_stays(chain);
  }

  void add_param_chain(u32 w, u32 cut, const std::vector<const DeviceTier::Arrival*>& arrivals) {
    Chain chain{.chunk = offset_id(layout_.windows[w].param, cut),
                .device = static_cast<u16>(layout_.windows[w].owner(cut)),
                .circular = !layout_.params_die(),
                .persistent = true};
    const i32 update = program_.update[w][cut];
    const Use use{.what = layout_.params_die() ? Use::What::makes : Use::What::updates,
                  .position = update,
                  .segments = update_segments()};
    if (clipping()) chain.uses.push_back(use);
    for (const DeviceTier::Arrival* a : arrivals) {
      const i32 begin = device_.arcs[a->arc].placed.begin;
      CHECK(begin >= 0, begin, w);
      const bool waits = clipping() && begin <= update;
      chain.uses.push_back({.what = Use::What::supplies,
                            .position = waits ? update : begin,
                            .segments = a->segments,
                            .device_arc = a->arc,
                            .phase = waits ? Phase::after : Phase::before});
    }
    if (!clipping() && layout_.trains) chain.uses.push_back(use);
    chains_.push_back(std::move(chain));
  }

  void add_state_chain(ChunkId id, u32 w, u32 cut) {
    Chain chain{.chunk = id, .circular = true, .persistent = true};
    chain.uses.push_back({.what = Use::What::updates,
                          .position = program_.update[w][cut],
                          .segments = update_segments()});
    chains_.push_back(std::move(chain));
  }

  // Gradients go down to their update; activations and accumulators come back up.
  void add_departure_chain(const DeviceTier::Departure& d, ChunkId id, u16 device) {
    Chain chain{.chunk = id, .device = device};
    const Chunk& chunk = layout_.chunk(chain.chunk);
    // Only the head's input lives beyond its forward when nothing is trained.
    const bool evaluated = chunk.kind == Kind::activation && chunk.block + 1 == in_.graph.blocks.size() &&
                           program_.ops[static_cast<u64>(d.out)].sweep == 0;
    const u8 segments = in_first | in_body | (evaluated ? in_evaluation : 0);
    Use down{.what = Use::What::arrives, .position = d.out, .segments = segments, .device_arc = d.from_arc};
    Use next{.segments = segments};
    if (d.back_arc != none) {
      next.what = Use::What::supplies;
      next.device_arc = d.back_arc;
      next.position = device_.arcs[d.back_arc].placed.begin + d.back_turn;
      next.phase = Phase::before;
    } else {
      next.what = Use::What::updates;
      next.position = program_.update[chunk.window][chunk.cut];
      next.segments = update_segments();
      if (clipping()) down.position -= turn();
    }
    chain.uses = {down, next};
    chains_.push_back(std::move(chain));
  }

  static Span gap_after(const Chain& chain, u64 use, i32 turn) {
    const bool last = use + 1 == chain.uses.size();
    const i32 next = last ? chain.uses.front().position + turn : chain.uses[use + 1].position;
    Span gap{chain.uses[use].position + 1, next - 1};
    if (gap.end >= turn) gap = {gap.begin - turn, gap.end - turn};
    if (gap.end < 0) gap = {gap.begin + turn, gap.end + turn};
    return gap;
  }
  u64 gap_count(const Chain& chain) const { return chain.uses.size() - (chain.circular ? 0 : 1); }

  void init_stays(Chain& chain) const {
    chain.stays.assign(gap_count(chain), false);
    for (u64 g = 0; g < chain.stays.size(); ++g) {
      const Span gap = gap_after(chain, g, turn());
      const bool updated_for_forward = clipping() && chain.persistent && chain.uses.size() > 1 && g == 0;
      chain.stays[g] = gap.begin > gap.end || updated_for_forward;
    }
    if (!chain.persistent) return;
    if (forced_home(layout_.chunk(chain.chunk).window) == Tier::host) {
      chain.home_host = true;
      chain.stays.assign(chain.stays.size(), true);
    }
  }

  // disk: chosen unless forced.
  Tier forced_home(u32 w) const {
    const HomePolicy home = in_.options.home;
    const bool host = home == HomePolicy::host || (home == HomePolicy::mixed && w % 3 == 1);
    return host ? Tier::host : Tier::disk;
  }

  // ---- choices --------------------------------------------------------------------------------

  struct Choice {
    u32 chain = 0;
    u64 gap = 0;
  };

  bool may_rest(const Chain& chain) const {
    return !chain.persistent || in_.options.home == HomePolicy::automatic;
  }

  void choose(Profile& used) {
    std::vector<Stay> stays;
    std::vector<Choice> choices;
    for (u32 c = 0; c < chains_.size(); ++c) add_choices(c, stays, choices);
    const bool streams = stays_exceed(stays, used) || in_.options.home == HomePolicy::disk ||
                         in_.options.home == HomePolicy::mixed;
    const Bytes reserve = streams ? streaming_reserve(used) : Bytes{0};
    for (i32 p = 0; p < turn(); ++p)
      out_.working_set.push_back((used.at(p) + reserve + in_.options.host_reserved).value);
    const Bytes room = budget_ > reserve ? budget_ - reserve : Bytes{0};
    for (u32 i : choose_stays(stays, room, used)) {
      Chain& chain = chains_[choices[i].chain];
      if (stays[i].whole) {
        chain.stays.assign(chain.stays.size(), true);
        chain.home_host = true;
      } else {
        chain.stays[choices[i].gap] = true;
      }
    }
    for (Chain& chain : chains_)
      if (chain.circular && std::find(chain.stays.begin(), chain.stays.end(), false) == chain.stays.end())
        chain.home_host = true;
  }

  // A stay between two uses saves a read; of content that is made in between, the write as well. A
  // chunk that stays all around is never written at all.
  void add_choices(u32 c, std::vector<Stay>& stays, std::vector<Choice>& choices) const {
    const Chain& chain = chains_[c];
    if (!may_rest(chain)) return;
    const Bytes bytes = layout_.chunk(chain.chunk).bytes;
    const bool reused = chain.persistent && chain.uses.size() > 1;
    u64 reads = 0;
    for (u64 g = 0; g < gap_count(chain); ++g) {
      if (chain.stays[g]) continue;
      ++reads;
      stays.push_back({.span = gap_after(chain, g, turn()),
                       .bytes = bytes,
                       .saved_bytes = bytes.value * (reused ? 1 : 2),
                       .group = reused ? c : none,
                       .from_rest = chain.circular ? FromRest::throughout : from_rest(chain)});
      choices.push_back({.chain = c, .gap = g});
    }
    if (!reused || (chain.circular && reads == 0)) return;
    stays.push_back({.span = home_span(chain),
                     .bytes = bytes,
                     .saved_bytes = bytes.value * (reads + 1),
                     .group = c,
                     .whole = true,
                     .from_rest = FromRest::throughout});
    choices.push_back({.chain = c});
  }

  // What a turn from rest has of a chain's arcs, unless they are its home. Of state that streams past homes
  // nothing, too; but beside them it leaves room for one of each kind at rest, which is what checkpoints go
  // through.
  FromRest from_rest(const Chain& chain) const {
    const bool waits = !chain.persistent && chain.uses.back().what == Use::What::updates;
    return waits && layout_.params_die() ? FromRest::absent : FromRest::alike;
  }

  // A home that ends is full at least until a drain has ended: others' updates must leave it be.
  Span home_span(const Chain& chain) const {
    if (chain.circular) return {0, turn() - 1};
    return {chain.uses.front().position, std::max(chain.uses.back().position, program_.last_of_updates)};
  }

  bool stays_exceed(const std::vector<Stay>& stays, const Profile& used) const {
    Profile all = used;
    for (const Stay& stay : stays)
      if (!stay.whole) all.add(stay.span, stay.bytes, stay.from_rest);
    return all.peak() > budget_;
  }

  // Chunk sets in flight between disk and host: two being read, one updated, two being written, one
  // to spare; at most half of what the least leaves.
  Bytes streaming_reserve(const Profile& least) const {
    u64 set = 0;
    for (u32 w = 0; w < layout_.windows.size(); ++w) {
      if (device_.home[w]) continue;
      u64 bytes = layout_.trains ? layout_.chunk(layout_.gradient(w, 0)).bytes.value : 0;
      for (ChunkId id : layout_.state(w, 0)) bytes += layout_.chunk(id).bytes.value;
      set = std::max(set, bytes);
    }
    const u64 free = budget_ > least.peak() ? (budget_ - least.peak()).value : 0;
    return Bytes{std::min(6 * set, free / 2)};
  }

  // ---- arcs -----------------------------------------------------------------------------------

  // A run of uses with the chunk in the host throughout.
  struct Group {
    Arc arc;
    u64 first = 0, last = 0;     // uses, unrolled: index + uses.size() is the next turn
    i32 shift = 0;               // added to positions to bring the arc onto the circle
    bool read = false;           // begins with a read from disk; if its update makes it, from rest only
  };

  i32 position_of(const Chain& chain, u64 unrolled) const {
    const u64 n = chain.uses.size();
    return chain.uses[unrolled % n].position + static_cast<i32>(unrolled / n) * turn();
  }

  Group make_group(const Chain& chain, u64 first, u64 last) const {
    const Bytes bytes = layout_.chunk(chain.chunk).bytes;
    Group group{.first = first, .last = last};
    const i32 end = position_of(chain, last);
    group.shift = end >= turn() ? -turn() : end < 0 ? turn() : 0;
    group.read = chain.uses[first % chain.uses.size()].what != Use::What::arrives;
    group.arc = {.first = chain.chunk,
                 .bytes = bytes,
                 .span = {position_of(chain, first) + group.shift, end + group.shift},
                 .filled = group.read,
                 .from_rest = from_rest(chain)};
    if (group.read) {
      const i32 before = first > 0 ? position_of(chain, first - 1)
                                   : chain.uses.back().position - (chain.persistent ? turn() : 0);
      if (first > 0 || chain.persistent) group.arc.floor = before + group.shift + 1;
    } else if (first == last) {
      group.arc.tail = 2;  // being written to disk
    }
    return group;
  }

  std::vector<Group> groups_of(const Chain& chain) const {
    const u64 n = chain.uses.size();
    if (chain.home_host) {
      Group group{.first = 0, .last = n - 1};
      group.arc = {.first = chain.chunk,
                   .bytes = layout_.chunk(chain.chunk).bytes,
                   .span = home_span(chain),
                   .permanent = chain.circular};
      if (!chain.circular) group.arc.from_rest = FromRest::throughout;
      return {group};
    }
    u64 start = 0;
    if (chain.circular)
      while (chain.stays[(start + n - 1) % n]) ++start;
    std::vector<Group> groups;
    for (u64 i = start; i < start + n;) {
      u64 last = i;
      while (last + 1 < start + n && chain.stays[last % n]) ++last;
      groups.push_back(make_group(chain, i, last));
      i = last + 1;
    }
    return groups;
  }

  std::vector<Arc> fixed_arcs() const {
    std::vector<Arc> arcs;
    for (u32 device = 0; device < layout_.devices; ++device)
      arcs.push_back({.first = offset_id(layout_.scalars, device),
                      .bytes = layout_.chunk(layout_.scalars).bytes,
                      .span = {0, turn() - 1},
                      .permanent = true});
    for (i32 p = 0; p < turn(); ++p) {
      const ProgramOp& op = program_.ops[static_cast<u64>(p)];
      if (op.kind != OpKind::load_batch) continue;
      const ChunkId id = layout_.batch[op.micro_batch % program_.sweep_micro_batches];
      for (u32 device = 0; device < layout_.devices; ++device)
        arcs.push_back({.first = offset_id(id, device), .bytes = layout_.chunk(id).bytes, .span = {p, p}});
    }
    return arcs;
  }

  void build() {
    out_.arcs = fixed_arcs();
    for (const Chain& chain : chains_)
      for (Group& group : groups_of(chain)) {
        if (chain.home_host) out_.home_arcs[index(chain.chunk)] = static_cast<u32>(out_.arcs.size());
        built_.push_back({&chain, group, static_cast<u32>(out_.arcs.size())});
        out_.arcs.push_back(group.arc);
      }
  }

  // ---- movements --------------------------------------------------------------------------------

  struct Built {
    const Chain* chain = nullptr;
    Group group;
    u32 arc = 0;
  };

  void move() {
    move_batches();
    for (const Built& b : built_) {
      for (u64 u = b.group.first; u <= b.group.last; ++u) move_use(b, u);
      if (b.group.read) move_up(b);
      if (needs_write(b)) move_down(b);
    }
  }

  void add(Movement m, i32 position, u8 segments) {
    m.segments = segments;
    m.when.position = position;
    if (segments != 0) out_.movements.push_back(m);
  }

  Place host(u32 arc) const { return {.tier = Tier::host, .arc = arc}; }
  Place device(u32 arc, u32 device) const {
    return {.tier = Tier::device, .arc = arc, .device = static_cast<u16>(device)};
  }
  // Where parameters die a gradient lies in the frame of its own: that has been read for the last time before
  // there is a gradient, and is written after that has been read.
  ChunkId whose_frame(ChunkId chunk) const {
    const Chunk& c = layout_.chunk(chunk);
    if (c.kind != Kind::grad || !layout_.params_die()) return chunk;
    const ChunkId param = offset_id(layout_.windows[c.window].param, c.cut);
    return out_.home_arcs[index(param)] == none ? param : chunk;
  }

  Place disk(ChunkId content) {
    const ChunkId chunk = whose_frame(content);
    Frame& frame = swap_[index(chunk)];
    if (frame.bytes.value == 0) {
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
      const u32 on = layout_.chunk(arc.first).instance % layout_.devices;
      const ChunkId of_device_0{index(arc.first) - on};
      for (u32 d = 0; d < device_.arcs.size(); ++d)
        if (device_.arcs[d].first == of_device_0 && device_.arcs[d].span.begin == p)
          add({.chunk = arc.first, .from = host(a), .to = device(d, on), .when = {p, Phase::after}, .need = p}, p,
              in_first | in_body | (op.sweep == 0 ? in_evaluation : 0));
    }
  }

  i32 on_circle(i32 position) const { return position < 0 ? position + turn() : position % turn(); }

  // Copies between device and host at a use.
  void move_use(const Built& b, u64 u) {
    const Use& use = b.chain->uses[u % b.chain->uses.size()];
    if (use.what == Use::What::updates || use.what == Use::What::makes) return;
    Movement m{.chunk = b.chain->chunk, .when = {0, use.phase}, .need = use.position};
    const bool down = use.what == Use::What::arrives;
    const Place there = device(use.device_arc, b.chain->device);
    m.from = down ? there : host(b.arc);
    m.to = down ? host(b.arc) : there;
    add(m, on_circle(use.position), use.segments);
  }

  // The read that begins a group. A read that starts in the turn before belongs to the segments that
  // end with a backward; a segment that starts from rest has it at its beginning instead.
  void move_up(const Built& b) {
    const Use& first = b.chain->uses[b.group.first % b.chain->uses.size()];
    const i32 begin = out_.arcs[b.arc].placed.begin;
    Movement m{.chunk = b.chain->chunk, .from = disk(b.chain->chunk), .to = host(b.arc)};
    m.need = out_.arcs[b.arc].span.begin;
    // Not where the first use lies in the turn before as well: then the read runs whenever that does.
    const bool turn_before = begin < 0 && m.need >= 0;
    const u8 own = first.what == Use::What::makes ? u8{0}
                   : turn_before                  ? u8{in_first | in_body}
                                                  : first.segments;
    add(m, on_circle(begin), own);
    u8 missed = 0;
    for (u64 u = b.group.first; u <= b.group.last; ++u)
      if (position_of(*b.chain, u) + b.group.shift >= 0)
        missed |= b.chain->uses[u % b.chain->uses.size()].segments & (in_first | in_evaluation);
    if (begin >= 0) missed &= static_cast<u8>(~own);
    add(m, std::max(begin, 0), missed);
  }

  // Updated content goes to its home on disk; spilled content too, until it is needed again.
  bool needs_write(const Built& b) const {
    if (b.chain->home_host) return false;
    for (u64 u = b.group.first; u <= b.group.last; ++u) {
      const Use::What what = b.chain->uses[u % b.chain->uses.size()].what;
      if (b.chain->persistent && (what == Use::What::updates || what == Use::What::makes)) return true;
    }
    return !b.chain->persistent && !b.group.read && b.group.first == b.group.last;
  }

  void move_down(const Built& b) {
    for (u64 u = b.group.first; u <= b.group.last; ++u) {
      const Use& use = b.chain->uses[u % b.chain->uses.size()];
      if (use.what == Use::What::supplies) continue;
      // What dies before anything reads it again goes home only in order to rest there.
      const bool dies = use.what == Use::What::makes && b.group.last + 1 == b.chain->uses.size();
      add({.chunk = b.chain->chunk,
           .from = host(b.arc),
           .to = disk(b.chain->chunk),
           .when = {0, Phase::after},
           .need = use.position},
          on_circle(use.position), dies ? u8{in_drain} : use.segments);
    }
  }

  const ResidenceInput& in_;
  const Layout& layout_;
  const Program& program_;
  const DeviceTier& device_;
  Bytes budget_;
  std::vector<Chain> chains_;
  std::vector<Built> built_;
  std::vector<Frame> swap_;  // by chunk
  HostTier out_;
};

}  // namespace

HostTier plan_host_tier(const ResidenceInput& in, const DeviceTier& device, Bytes shrink) {
  return HostPlanner(in, device, shrink).plan();
}

}  // namespace tidepool
