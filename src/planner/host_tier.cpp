// Plans the host tier: which content rests there between uses, and the disk traffic of the rest.
#include <algorithm>

#include "planner/commit_ops.h"
#include "planner/host_chains.h"
#include "planner/host_moves.h"
#include "planner/host_shortage.h"

namespace tidepool {
namespace {

class HostPlanner {
 public:
  HostPlanner(const ResidenceInput& in, const DeviceTier& device, Bytes shrink, u32 versions)
      : in_(in),
        layout_(in.layout),
        program_(in.program),
        device_(device),
        chains_(HostChains(in, device).all()) {
    const Bytes taken = in.options.host_reserved + shrink;
    budget_ = in.options.budgets.host > taken ? in.options.budgets.host - taken : Bytes{0};
    out_.home_arcs.assign(layout_.chunks.size(), none);
    out_.versions = versions;
    if (versions > 1) buffers_ = persist_buffers(in, device);
  }

  HostTier plan() {
    Profile used(turn(), layout_.params_die());
    for (const Arc& arc : fixed_arcs()) used.add(arc.span, arc.bytes);
    for (const HostChain& chain : chains_)
      for (const HostGroup& group : groups_of(chain))
        used.add(group.arc.span, group.arc.bytes, group.arc.from_rest);
    const Bytes table = table_bytes();
    // Searches for the least budgets leave the disk's at 0, and compare what a plan needs of it afterwards.
    const bool no_disk = in_.options.budgets.disk < table &&
                         (in_.options.budgets.disk.value > 0 || used.peak() + table <= budget_);
    table_rests_ = table.value > 0 && (no_disk || in_.options.home == HomePolicy::host);
    if (table_rests_) used.add({0, turn() - 1}, table);
    out_.needs_least = used.peak() + in_.options.host_reserved;
    choose(used);
    // Rows of a table come from the disk at little cost: it rests here only if nothing else wants the room.
    const bool may_rest = table.value > 0 && in_.options.home == HomePolicy::automatic;
    if (may_rest && !table_rests_ && used.peak() + table <= budget_) table_rests_ = true;
    build();
    out_.peak = place_arcs(out_.arcs, {.positions = turn(),
                                       .capacity = budget_,
                                       .lookahead = static_cast<i32>(in_.options.lookahead),
                                       .start = program_.first_backward}) +
                in_.options.host_reserved;
    move_host_chunks(in_, device_, groups_, out_);
    return std::move(out_);
  }

 private:
  i32 turn() const { return program_.positions(); }

  // ---- choices --------------------------------------------------------------------------------

  struct Choice {
    u32 chain = 0;
    u64 gap = 0;
  };

  bool may_rest(const HostChain& chain) const {
    return !chain.persistent || in_.options.home == HomePolicy::automatic;
  }

  void choose(Profile& used) {
    std::vector<Stay> stays;
    std::vector<Choice> choices;
    for (u32 c = 0; c < chains_.size(); ++c) add_choices(c, stays, choices);
    const bool streams = stays_exceed(stays, used) || in_.options.home == HomePolicy::disk ||
                         in_.options.home == HomePolicy::mixed;
    const Bytes reserve = streams ? streaming_reserve(used) : Bytes{0};
    // Homes that were forced are a choice, not a need of streaming.
    Profile forced(turn());
    for (const HostChain& chain : chains_)
      for (const HostGroup& group : groups_of(chain))
        if (chain.home_host) forced.add(group.arc.span, group.arc.bytes);
    for (i32 p = 0; p < turn(); ++p) {
      out_.least_set.push_back((used.at(p) - forced.at(p) + in_.options.host_reserved).value);
      out_.working_set.push_back(out_.least_set.back() + reserve.value);
    }
    const Bytes room = budget_ > reserve ? budget_ - reserve : Bytes{0};
    for (u32 i : choose_stays(stays, room, used)) {
      HostChain& chain = chains_[choices[i].chain];
      if (stays[i].whole) {
        chain.stays.assign(chain.stays.size(), true);
        chain.home_host = true;
      } else {
        chain.stays[choices[i].gap] = true;
      }
    }
    for (HostChain& chain : chains_)
      if (chain.circular && std::find(chain.stays.begin(), chain.stays.end(), false) == chain.stays.end())
        chain.home_host = true;
  }

  // A stay between two uses saves a read, and if the content is made in between, also the write. A chunk that
  // stays all around is never written; neither is a frozen chunk, whose stays are all alike.
  void add_choices(u32 c, std::vector<Stay>& stays, std::vector<Choice>& choices) const {
    const HostChain& chain = chains_[c];
    if (!may_rest(chain)) return;
    const Bytes bytes = layout_.chunk(chain.chunk).bytes;
    const bool reused = chain.persistent && chain.uses.size() > 1 && trains(layout_, chain);
    const bool written = !reused && trains(layout_, chain);
    u64 reads = 0;
    for (u64 g = 0; g < chain.gaps(); ++g) {
      if (chain.stays[g]) continue;
      ++reads;
      stays.push_back({.span = chain.gap_after(g, turn()),
                       .bytes = bytes,
                       .saved_bytes = bytes.value * (written ? 2 : 1),
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

  // FromRest of a chain's arcs that are not its home. A turn from rest has nothing of state that streams past
  // homes either, but that is counted as `alike`: so beside the homes there is room for one chunk of each
  // kind at rest, through which checkpoints go.
  FromRest from_rest(const HostChain& chain) const {
    const bool waits = !chain.persistent && chain.uses.back().what == HostUse::What::updates;
    return waits && layout_.params_die() ? FromRest::absent : FromRest::alike;
  }

  // A home that ends is full at least until a drain has ended: other updates must not use its bytes before.
  Span home_span(const HostChain& chain) const {
    if (chain.circular) return {0, turn() - 1};
    if (!program_.options.clipping) return {chain.uses.front().position, chain.uses.back().position};
    return {chain.uses.front().position, std::max(chain.uses.back().position, program_.last_of_updates)};
  }

  bool stays_exceed(const std::vector<Stay>& stays, const Profile& used) const {
    Profile all = used;
    for (const Stay& stay : stays)
      if (!stay.whole) all.add(stay.span, stay.bytes, stay.from_rest);
    return all.peak() > budget_;
  }

  // Room for chunk sets in flight between disk and host, at most half of the room that the least leaves.
  Bytes streaming_reserve(const Profile& least) const {
    const u64 free = budget_ > least.peak() ? (budget_ - least.peak()).value : 0;
    return std::min(sets_in_flight(layout_, device_.home), Bytes{free / 2});
  }

  // ---- arcs -----------------------------------------------------------------------------------

  HostGroup make_group(const HostChain& chain, u64 first, u64 last) const {
    const Bytes bytes = layout_.chunk(chain.chunk).bytes;
    HostGroup group{.first = first, .last = last};
    const i32 end = position_of(chain, last, turn());
    group.shift = end >= turn() ? -turn() : end < 0 ? turn() : 0;
    const HostUse::What what = chain.use(first).what;
    group.read = what != HostUse::What::arrives && what != HostUse::What::sums;
    group.arc = {.first = chain.chunk,
                 .bytes = bytes,
                 .span = {position_of(chain, first, turn()) + group.shift, end + group.shift},
                 .filled = group.read,
                 .from_rest = from_rest(chain)};
    if (group.read) {
      const i32 before = first > 0 ? position_of(chain, first - 1, turn())
                                   : chain.uses.back().position - (chain.persistent ? turn() : 0);
      if (first > 0 || chain.persistent) group.arc.floor = before + group.shift + 1;
      if (first == 0 && chain.peer != none)
        group.arc.floor = std::max(group.arc.floor, chain.floor + group.shift);
    } else if (first == last || chain.use(last).what == HostUse::What::sends) {
      group.arc.tail = 2;  // while it is written to disk, or sent
    }
    // With layers over devices, passes on all devices run at once: content that comes later in the order of
    // positions should not wait for the bytes of content that another device takes.
    if (program_.options.parallel == Parallel::layers && !chain.persistent)
      group.arc.tail = static_cast<i32>(layout_.devices * program_.sweep_units());
    return group;
  }

  std::vector<HostGroup> groups_of(const HostChain& chain) const {
    const u64 n = chain.uses.size();
    if (chain.home_host) {
      HostGroup group{.first = 0, .last = n - 1};
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
    std::vector<HostGroup> groups;
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
    for (u32 node = 0; node < layout_.nodes && layout_.nodes > 1 && layout_.trains; ++node)
      arcs.push_back({.first = offset_id(layout_.node_scalars, node),
                      .bytes = layout_.chunk(layout_.node_scalars).bytes,
                      .span = {0, turn() - 1},
                      .permanent = true});
    arcs.insert(arcs.end(), buffers_.begin(), buffers_.end());
    for (i32 p = 0; p < turn(); ++p) {
      const ProgramOp& op = program_.ops[static_cast<u64>(p)];
      if (op.kind != OpKind::load_batch) continue;
      const ChunkId id = layout_.batch[op.micro_batch % program_.sweep_micro_batches];
      for (u32 replica = 0; replica < layout_.replicas; ++replica)
        arcs.push_back({.first = offset_id(id, replica), .bytes = layout_.chunk(id).bytes, .span = {p, p}});
    }
    add_rows(arcs);
    return arcs;
  }

  Bytes table_bytes() const {
    if (!layout_.lookup.on()) return {};
    const WindowChunks& table = layout_.windows[layout_.lookup.window];
    return layout_.bytes(table.param, table.cuts);
  }

  // Rows that are looked up stand here until they are copied up.
  void add_rows(std::vector<Arc>& arcs) const {
    for (const Arc& on_device : device_.arcs) {
      if (std::ranges::find(layout_.rows, on_device.first) == layout_.rows.end()) continue;
      const i32 begin = on_device.placed.begin;
      CHECK(begin >= 0, begin);
      for (u32 replica = 0; replica < layout_.replicas; ++replica)
        arcs.push_back({.first = offset_id(on_device.first, replica),
                        .bytes = on_device.bytes,
                        .span = {begin, begin},
                        .floor = on_device.floor,
                        .filled = true});
    }
  }

  void add_table() {
    const WindowChunks& table = layout_.windows[layout_.lookup.window];
    for (u32 cut = 0; cut < table.cuts; ++cut) {
      const ChunkId id = offset_id(table.param, cut);
      out_.home_arcs[index(id)] = static_cast<u32>(out_.arcs.size());
      out_.arcs.push_back(
          {.first = id, .bytes = layout_.chunk(id).bytes, .span = {0, turn() - 1}, .permanent = true});
    }
  }

  void build() {
    out_.arcs = fixed_arcs();
    const u32 scalars = layout_.devices + (layout_.nodes > 1 && layout_.trains ? layout_.nodes : 0);
    for (u32 i = 0; i < buffers_.size(); ++i) out_.persist_buffers.push_back(scalars + i);
    if (table_rests_) add_table();
    for (const HostChain& chain : chains_)
      for (HostGroup& group : groups_of(chain)) {
        if (chain.home_host) out_.home_arcs[index(chain.chunk)] = static_cast<u32>(out_.arcs.size());
        groups_.push_back({&chain, group, static_cast<u32>(out_.arcs.size())});
        out_.arcs.push_back(group.arc);
      }
  }

  const ResidenceInput& in_;
  const Layout& layout_;
  const Program& program_;
  const DeviceTier& device_;
  Bytes budget_;
  std::vector<HostChain> chains_;
  std::vector<PlacedGroup> groups_;
  std::vector<Arc> buffers_;
  bool table_rests_ = false;  // the table that is looked up; otherwise it rests on the disk
  HostTier out_;
};

bool rests_on_disk(const Layout& layout, const HostTier& tier) {
  for (u32 id = 0; id < layout.chunks.size(); ++id)
    if (is_in_commit(layout, ChunkId{id}) && tier.homes[id].bytes.value > 0) return true;
  return false;
}

}  // namespace

HostTier plan_host_tier(const ResidenceInput& in, const DeviceTier& device, Bytes shrink) {
  const auto with = [&](u32 versions) { return HostPlanner(in, device, shrink, versions).plan(); };
  const u32 wanted = in.layout.trains && in.layout.nodes == 1 ? in.options.versions : 1;
  if (wanted != 0) return with(wanted);
  // With fewer versions, frames on disk move and nothing else changes, as long as there are two.
  HostTier most = with(versions_max);
  const Budgets& budgets = in.options.budgets;
  const bool commits = most.needs_least <= budgets.host &&
                       (most.peak <= budgets.host || shrink < budgets.host) && rests_on_disk(in.layout, most);
  const auto fits = [&](u32 versions) {
    // Checkpoints, each a little larger than the state, need room beside it.
    const Bytes others = most.disk_bytes - most.second_slot * versions_max;
    return others + most.second_slot * (versions + 2) <= budgets.disk;
  };
  const bool must_commit = in.options.speculates;
  if ((commits || must_commit) && fits(versions_max)) return most;
  return with(must_commit || (commits && fits(2)) ? 2 : 1);
}

}  // namespace tidepool
