#include "planner/host_chains.h"

#include <algorithm>

#include "base/check.h"

namespace tidepool {

using What = HostUse::What;

Span HostChain::gap_after(u64 i, i32 turn) const {
  const bool last = i + 1 == uses.size();
  const i32 next = last ? uses.front().position + turn : uses[i + 1].position;
  Span gap{uses[i].position + 1, next - 1};
  if (gap.end >= turn) gap = {gap.begin - turn, gap.end - turn};
  if (gap.end < 0) gap = {gap.begin + turn, gap.end + turn};
  return gap;
}

namespace {

// Positions by which a node is ready to receive before the content is due. A few hide a lead of the other
// node; more would take memory, and places among the receives in flight, that nothing fills yet.
constexpr i32 receives_ahead_of_all = 16;

}  // namespace

i32 HostChains::receives_ahead() const {
  return std::max(receives_ahead_of_all / static_cast<i32>(layout_.nodes), 1);
}

bool trains(const Layout& layout, const HostChain& chain) {
  const u32 window = layout.chunk(chain.chunk).window;
  return window == none || layout.windows[window].trains;
}

HostChains::HostChains(const ResidenceInput& in, const DeviceTier& device)
    : in_(in),
      layout_(in.layout),
      program_(in.program),
      device_(device),
      visits_(layout_.chunks.size(), none) {
  for (u32 v = 0; v < device.visits.size(); ++v) visits_[index(device.visits[v].chunk)] = v;
}

std::vector<HostChain> HostChains::all() const {
  std::vector<HostChain> chains;
  std::vector<std::vector<const DeviceTier::Arrival*>> arrivals(layout_.windows.size());
  for (const DeviceTier::Arrival& a : device_.arrivals) arrivals[a.window].push_back(&a);
  for (u32 w = 0; w < layout_.windows.size(); ++w) {
    if (device_.home[w] || w == layout_.lookup.window) continue;
    for (u32 cut = 0; cut < layout_.windows[w].cuts; ++cut) {
      chains.push_back(params(w, cut, arrivals[w]));
      for (ChunkId id : layout_.state(w, cut))
        if (layout_.chunk(id).kind != Kind::param) chains.push_back(state(id, w, cut));
    }
    if (layout_.nodes > 1 && layout_.windows[w].trains) add_sums(w, chains);
  }
  for (const DeviceTier::Departure& d : device_.departures)
    for (u32 r = 0; r < layout_.replicas; ++r) {
      const Held held = held_by(layout_, d.first, d.count, d.spread, r);
      for (u32 i = 0; i < held.count; ++i) chains.push_back(departure(d, offset_id(held.first, i), r));
    }
  for (HostChain& chain : chains) init_stays(chain);
  return chains;
}

HostChain HostChains::params(u32 w, u32 cut, const std::vector<const DeviceTier::Arrival*>& arrivals) const {
  HostChain chain{.chunk = offset_id(layout_.windows[w].param, cut),
                  .circular = !layout_.params_die(w, cut),
                  .persistent = true};
  const bool trains = layout_.windows[w].trains, foreign = trains && !layout_.owns(w, cut);
  const i32 update = trains ? program_.update[w][cut] : 0;
  HostUse use{.what = layout_.params_die(w, cut) ? What::makes : What::updates,
              .position = update,
              .segments = update_segments()};
  if (foreign) {
    chain.peer = layout_.chunk(chain.chunk).owner;
    if (!clipping()) use.position -= turn();
  }
  const bool first = clipping() || foreign;
  if (trains && first) chain.uses.push_back(use);
  const u64 before = chain.uses.size();
  for (const DeviceTier::Arrival* a : arrivals)
    chain.uses.push_back(supply(*a, update, layout_.windows[w].owner(cut)));
  std::stable_sort(chain.uses.begin() + static_cast<i64>(before), chain.uses.end(),
                   [](const HostUse& a, const HostUse& b) { return a.position < b.position; });
  if (trains && !first) chain.uses.push_back(use);
  // It arrives in the turn in which its owner updates it, and after all blocks have read it for the last
  // time.
  if (foreign)
    chain.floor = std::max(use.position - receives_ahead(), clipping() ? 0 : program_.gradient[w] - turn());
  return chain;
}

u16 HostChains::device_of(u32 arc, u32 replica) const {
  return static_cast<u16>(device_.arcs[arc].device + replica);
}

HostUse HostChains::supply(const DeviceTier::Arrival& a, i32 update, u32 replica) const {
  const i32 begin = device_.arcs[a.arc].placed.begin;
  CHECK(begin >= 0, begin, a.window);
  const bool waits = clipping() && layout_.windows[a.window].trains && begin <= update;
  return {.what = What::supplies,
          .position = waits ? update : begin,
          .segments = a.segments,
          .device_arc = a.arc,
          .device = device_of(a.arc, replica),
          .phase = waits ? Phase::after : Phase::before};
}

// A direction needs the rule's slots, and the update the others.
HostChain HostChains::state(ChunkId id, u32 w, u32 cut) const {
  const bool of_rule = layout_.state_slots.is_optimizer_slot(layout_.chunk(id).kind);
  const i32 position = (of_rule ? program_.direction : program_.update)[w][cut];
  return {.chunk = id,
          .circular = true,
          .persistent = true,
          .uses = {{.what = What::updates, .position = position, .segments = update_segments()}}};
}

// Adds the uses of a gradient by its update.
void HostChains::add_update(HostChain& chain) const {
  const Chunk& chunk = layout_.chunk(chain.chunk);
  const auto use = [&](What what, i32 position, Phase phase) {
    chain.uses.push_back({.what = what, .position = position, .segments = update_segments(), .phase = phase});
  };
  if (const u32 v = visits_[index(chain.chunk)]; v != none) {
    const u32 arc = device_.visits[v].arc;
    const u16 device = device_of(arc, layout_.windows[chunk.window].owner(chunk.cut));
    const auto visit = [&](What what, i32 position, Phase phase) {
      use(what, position, phase);
      chain.uses.back().device_arc = arc, chain.uses.back().device = device;
    };
    chain.stays_from = chain.uses.size();
    use(What::updates, program_.direction[chunk.window][chunk.cut], Phase::after);
    visit(What::supplies, device_.arcs[arc].placed.begin, Phase::before);
    visit(What::arrives, program_.orthogonalize[chunk.window][chunk.cut], Phase::after);
  }
  use(What::updates, program_.update[chunk.window][chunk.cut], Phase::after);
}

// Chain of content that a device hands down: gradients go to their update, activations and accumulators come
// back up.
HostChain HostChains::departure(const DeviceTier::Departure& d, ChunkId id, u32 replica) const {
  HostUse down{.what = What::arrives,
               .position = d.out,
               .segments = d.segments,
               .device_arc = d.from_arc,
               .device = device_of(d.from_arc, replica)};
  if (d.backs.empty() && layout_.nodes > 1) return own_part(down, id);
  if (d.backs.empty()) {
    if (clipping()) down.position -= turn();
    HostChain chain{.chunk = id, .uses = {down}};
    add_update(chain);
    return chain;
  }
  HostChain chain{.chunk = id, .uses = {down}};
  for (const DeviceTier::Back& back : d.backs)
    chain.uses.push_back({.what = What::supplies,
                          .position = device_.arcs[back.arc].placed.begin + back.turn,
                          .segments = back.segments,
                          .device_arc = back.arc,
                          .device = device_of(back.arc, replica),
                          .phase = Phase::before});
  std::stable_sort(chain.uses.begin() + 1, chain.uses.end(),
                   [](const HostUse& a, const HostUse& b) { return a.position < b.position; });
  return chain;
}

// Chain of this node's part of a gradient, of one use of the window. In fp32 the owner's part of the first
// use becomes the gradient, and waits for the update.
HostChain HostChains::own_part(HostUse down, ChunkId id) const {
  const Chunk& chunk = layout_.chunk(id);
  const bool owned = chunk.owner == layout_.node;
  HostUse next{.what = owned ? What::combines : What::sends,
               .position = program_.combine[chunk.window][chunk.cut],
               .segments = in_first | in_body};
  HostChain chain{.chunk = id, .uses = {down, next}};
  if (!owned || id != layout_.gradient(chunk.window, chunk.cut)) return chain;
  if (clipping())
    for (HostUse& use : chain.uses) use.position -= turn();
  add_update(chain);
  return chain;
}

// Adds the other nodes' parts of the cuts that this node owns, and the sums if they are chunks of their own.
void HostChains::add_sums(u32 w, std::vector<HostChain>& chains) const {
  const WindowChunks& chunks = layout_.windows[w];
  for (u32 cut = 0; cut < chunks.cuts; ++cut) {
    if (!layout_.owns(w, cut)) continue;
    HostUse use{.what = What::combines, .position = program_.combine[w][cut], .segments = in_first | in_body};
    const u32 parts = layout_.nodes * static_cast<u32>(chunks.grad_accum.size());
    for (u32 part = 0; part < parts; ++part)
      if (part % layout_.nodes != layout_.node)
        chains.push_back({.chunk = offset_id(chunks.parts, part * chunks.cuts + cut),
                          .peer = part % layout_.nodes,
                          .floor = std::max(program_.gradient[w], use.position - receives_ahead()),
                          .uses = {use}});
    if (!layout_.state_slots.has(Kind::grad)) continue;
    use.what = What::sums;
    if (clipping()) use.position -= turn();
    HostChain chain{.chunk = offset_id(chunks.grad, cut), .uses = {use}};
    add_update(chain);
    chains.push_back(std::move(chain));
  }
}

void HostChains::init_stays(HostChain& chain) const {
  chain.stays.assign(chain.gaps(), false);
  for (u64 g = 0; g < chain.stays.size(); ++g) {
    const Span gap = chain.gap_after(g, turn());
    const bool updated_for_forward =
        clipping() && chain.persistent && chain.uses.size() > 1 && g == 0 && trains(layout_, chain);
    const bool becomes_sum = chain.use(g + 1).what == What::combines && chain.uses.size() > 2;
    chain.stays[g] = gap.begin > gap.end || updated_for_forward || becomes_sum || g >= chain.stays_from;
  }
  if (!chain.persistent || !is_forced(layout_.chunk(chain.chunk).window)) return;
  chain.home_host = true;
  chain.stays.assign(chain.stays.size(), true);
}

// True if the user asked for a home in the host, whatever it costs.
bool HostChains::is_forced(u32 w) const {
  const HomePolicy home = in_.options.home;
  return home == HomePolicy::host || (home == HomePolicy::mixed && w % 3 == 1);
}

}  // namespace tidepool
