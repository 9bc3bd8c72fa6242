#include "planner/host_shortage.h"

#include <algorithm>

#include "planner/device_chains.h"

namespace tidepool {
namespace {

// Bytes that the host would hold at each position: state, and all content that leaves a device between uses.
CircleProfile held_in_host(const ResidenceInput& in) {
  const Layout& layout = in.layout;
  const i32 turn = in.program.positions();
  Bytes state = in.options.host_reserved;
  for (u32 w = 0; w < layout.windows.size(); ++w)
    for (u32 cut = 0; cut < layout.windows[w].cuts; ++cut)
      for (ChunkId id : layout.state(w, cut)) state += layout.chunk(id).bytes;
  CircleProfile held(turn);
  held.add({0, turn - 1}, state);
  const auto add = [&](Span gap, Bytes bytes) {
    if (gap.begin > gap.end) return;
    held.add(gap.end >= turn ? Span{gap.begin - turn, gap.end - turn} : gap, bytes);
  };
  const std::vector<bool> no_home(layout.windows.size(), false);
  const DeviceChains chains(in.graph, layout, in.program, no_home);
  for (const DeviceChain& chain : chains.all()) {
    const Bytes bytes = layout.bytes(chain.first, chain.count) * layout.replicas;
    for (u32 t = 0; t < chain.touches.size() && chain.produced_here; ++t)
      if (chain.touches[t].before != none && !chain.touches[t].stays) add(chain.gap_before(t), bytes);
    // A gradient that waits in the bytes of dead parameters takes no others.
    if (chain.leaves_by != 0 && !layout.params_die(chain.window)) add(chain.gap_until_left(), bytes);
  }
  return held;
}

}  // namespace

double HostShortage::part_of(Span span) const {
  const i32 turn = static_cast<i32>(upto.size()) - 1;
  const auto within = [&](i32 begin, i32 end) {
    return upto[static_cast<u64>(end)] - upto[static_cast<u64>(begin)];
  };
  if (upto.empty() || upto.back() == 0) return 0;
  const i32 count = span.begin >= 0 ? within(span.begin, span.end + 1)
                                    : within(0, span.end + 1) + within(span.begin + turn, turn);
  return static_cast<double>(count) / upto.back();
}

Bytes sets_in_flight(const Layout& layout, const std::vector<bool>& home) {
  u64 set = 0;
  for (u32 w = 0; w < layout.windows.size(); ++w) {
    if (home[w]) continue;
    for (const WindowChunks::UnitCuts& unit : layout.windows[w].units) {
      const u32 first = unit.first_cut;
      const u64 bytes = layout.windows[w].trains ? layout.chunk(layout.gradient(w, first)).bytes.value : 0;
      u64 state = 0;
      for (u32 cut = first; cut < first + std::min(layout.nodes, unit.cuts); ++cut) {  // of several owners
        u64 of_cut = 0;
        for (ChunkId id : layout.state(w, cut)) of_cut += layout.chunk(id).bytes.value;
        state = std::max(state, of_cut);
      }
      set = std::max(set, bytes + state);
    }
  }
  return Bytes{6 * set};
}

HostShortage host_shortage(const ResidenceInput& in) {
  HostShortage out;
  if (in.options.home != HomePolicy::automatic || in.layout.nodes > 1) return out;
  const CircleProfile held = held_in_host(in);
  const Bytes budget = in.options.budgets.host;
  if (held.peak() <= budget) return out;
  // Whatever streams needs room to do so.
  const Bytes in_flight = sets_in_flight(in.layout, std::vector<bool>(in.layout.windows.size(), false));
  out.upto.push_back(0);
  for (i32 p = 0; p < held.positions(); ++p) {
    const Bytes need = held.at(p) + in_flight;
    const bool is_short = need > budget;
    out.upto.push_back(out.upto.back() + is_short);
    if (!is_short || need - budget <= out.most) continue;
    out.most = need - budget;
    out.worst = p;
  }
  return out;
}

}  // namespace tidepool
