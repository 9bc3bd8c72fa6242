#include "planner/move_order.h"

#include <algorithm>
#include <tuple>

namespace tidepool {

std::vector<Movement> ordered_movements(const HostTier& host) {
  std::vector<Movement> out = host.movements;
  const auto stage = [](const Movement& m) {
    if (m.to.node != none || m.to.tier != Tier::host) return 2;
    return m.from.node != none || m.from.tier == Tier::disk ? 0 : 1;
  };
  std::stable_sort(out.begin(), out.end(), [&](const Movement& a, const Movement& b) {
    return std::tuple(a.when, stage(a), a.need) < std::tuple(b.when, stage(b), b.need);
  });
  return out;
}

std::vector<Gather> ordered_gathers(const ResidenceInput& in, const DeviceTier& device,
                                    const std::vector<Movement>& movements) {
  std::vector<Moment> last(device.arcs.size(), Moment{-1, Phase::before});
  for (const Movement& m : movements)
    if (m.to.node == none && m.to.tier == Tier::device) last[m.to.arc] = std::max(last[m.to.arc], m.when);
  std::vector<Gather> out;
  for (const DeviceTier::Arrival& a : device.arrivals) {
    const i32 begin = device.arcs[a.arc].placed.begin, update = in.program.last_update(a.window);
    Moment when = last[a.arc];
    const bool updated = in.program.options.clipping && in.layout.windows[a.window].trains;
    if (device.home[a.window])
      when = updated && begin <= update ? Moment{update, Phase::after} : Moment{begin, Phase::before};
    out.push_back({a.arc, a.window, a.segments, when});
  }
  std::stable_sort(out.begin(), out.end(), [&](const Gather& a, const Gather& b) {
    return std::tuple(a.when, device.arcs[a.arc].span.begin) <
           std::tuple(b.when, device.arcs[b.arc].span.begin);
  });
  return out;
}

}  // namespace tidepool
