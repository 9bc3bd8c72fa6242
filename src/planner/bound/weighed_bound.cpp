// most_saved_weighed() bounds what memory can save on all links together. The linear program holds content in
// the tiers; any prices per byte and position bound its optimum, and subgradient steps find good ones.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "planner/bound/lower_bound.h"
#include "tidepool/plan.h"

namespace tidepool {
namespace {

// Places in which content is held over a gap. In `either` it may change from one tier to the other.
constexpr u32 device = 0, host = 1, either = 2, places = 3, nowhere = 3;
constexpr double link_worth = 1, disk_worth = disk_weight;

// Compact is contents and capacities of a circle in which neighbouring positions count as one, if all content
// covers both or neither: then the least capacity of them is all that matters. Capacities are of what is held
// on the device all along, of what is in the host all along, and of both tiers together.
struct Compact {
  HeldContents contents;
  std::array<std::vector<double>, places> capacity;
};

template <typename Do>
void for_each(HeldContents& contents, const Do& act) {
  for (HeldWindow& window : contents.windows) {
    act(window.state);
    act(window.gradient);
    for (HeldGap& param : window.params) act(param);
  }
  for (HeldGap& other : contents.others) act(other);
}

Compact compact(HeldContents contents, const std::vector<u64>& of_devices, const std::vector<u64>& of_host) {
  const i32 positions = static_cast<i32>(of_devices.size());
  const auto on_circle = [&](i32 p) { return p < 0 ? p + positions : p; };
  std::vector<i32> begins = {0};
  for_each(contents, [&](const HeldGap& gap) {
    begins.push_back(on_circle(gap.begin));
    if (gap.end + 1 < positions) begins.push_back(gap.end + 1);
  });
  std::ranges::sort(begins);
  begins.erase(std::unique(begins.begin(), begins.end()), begins.end());
  const i32 count = static_cast<i32>(begins.size());
  const auto part_of = [&](i32 p) {
    return static_cast<i32>(std::ranges::upper_bound(begins, p) - begins.begin()) - 1;
  };
  for_each(contents, [&](HeldGap& gap) {
    gap.begin = part_of(on_circle(gap.begin)) - (gap.begin < 0 ? count : 0);
    gap.end = part_of(gap.end);
  });
  Compact out{.contents = std::move(contents), .capacity = {}};
  begins.push_back(positions);
  for (u64 i = 0; i + 1 < begins.size(); ++i) {
    std::array<u64, places> least{~u64{0}, ~u64{0}, ~u64{0}};
    for (u64 p = static_cast<u64>(begins[i]); p < static_cast<u64>(begins[i + 1]); ++p) {
      const std::array<u64, places> here{of_devices[p], of_host[p], of_devices[p] + of_host[p]};
      for (u32 c = 0; c < places; ++c) least[c] = std::min(least[c], here[c]);
    }
    for (u32 c = 0; c < places; ++c) out.capacity[c].push_back(static_cast<double>(least[c]));
  }
  return out;
}

// Dual has prices of a byte of each capacity at each position. Its value at any prices is the worth of all
// memory at these prices, and what the content gains beyond the price of its best place.
class Dual {
 public:
  explicit Dual(Compact problem)
      : contents_(std::move(problem.contents)),
        positions_(problem.capacity[device].size()),
        capacity_(std::move(problem.capacity)) {
    for (u32 c = 0; c < places; ++c) {
      price_[c].assign(positions_, 0.0);
      change_[c].assign(positions_ + 1, 0.0);
      sum_[c].assign(positions_ + 1, 0.0);
      slope_[c].assign(positions_, 0.0);
    }
    way_ = slope_;
  }

  // Steps towards a value that is `hope` below the best one so far. The hope is halved when it is in vain.
  double best(double reached) {
    constexpr u32 patience = 1000;
    constexpr u64 work_max = 30'000'000;  // prices and places that are looked at: some 0.1 s
    const u64 steps_max = work_max / (places * positions_ + gaps());
    constexpr double close = 1e-5;  // of the value
    double least = value(), hope = (least - reached) / 2;
    auto prices = price_;
    u32 in_vain = 0;
    for (u64 step = 0; step < steps_max && hope > close * least; ++step) {
      if (!walk(hope + last_ - least)) break;
      const double now = value();
      in_vain = now < least - hope / 4 ? 0 : in_vain + 1;
      if (now < least) least = now, prices = price_;
      if (in_vain < patience) continue;
      hope /= 2, in_vain = 0;
      price_ = prices;
      for (std::vector<double>& way : way_) std::ranges::fill(way, 0.0);
      value();
    }
    return least;
  }

 private:
  // Moves the prices such that the value would fall by `fall`, were it linear along the way. The way keeps a
  // part of the last one: across a valley, two slopes in turn cancel out.
  // RETURNS: false if no price can change.
  bool walk(double fall) {
    constexpr double kept = 0.98;
    double square = 0;
    for (u32 c = 0; c < places; ++c)
      for (u64 p = 0; p < positions_; ++p) {
        way_[c][p] = kept * way_[c][p] + slope_[c][p];
        if (price_[c][p] <= 0 && way_[c][p] > 0) way_[c][p] = 0;
        square += way_[c][p] * way_[c][p];
      }
    if (square == 0) return false;
    for (u32 c = 0; c < places; ++c)
      for (u64 p = 0; p < positions_; ++p)
        price_[c][p] = std::max(0.0, price_[c][p] - fall / square * way_[c][p]);
    return true;
  }

  u64 gaps() const {
    u64 count = contents_.others.size();
    for (const HeldWindow& window : contents_.windows) count += 2 + window.params.size();
    return count;
  }

  // RETURNS: the value at the prices; slope_ becomes its subgradient.
  double value() {
    double sum = 0;
    for (u32 c = 0; c < places; ++c) {
      for (u64 p = 0; p < positions_; ++p) {
        sum_[c][p + 1] = sum_[c][p] + price_[c][p];
        sum += price_[c][p] * capacity_[c][p];
      }
      std::fill(change_[c].begin(), change_[c].end(), 0.0);
    }
    for (const HeldWindow& window : contents_.windows) sum += gain_of(window);
    for (const HeldGap& content : contents_.others) {
      const Choice best = best_of(content, content.links);
      take(content, best.place);
      sum += best.gain;
    }
    for (u32 c = 0; c < places; ++c) {
      double held = 0;
      for (u64 p = 0; p < positions_; ++p) slope_[c][p] = capacity_[c][p] - (held += change_[c][p]);
    }
    return last_ = sum;
  }

  struct Choice {
    double gain = 0;
    u32 place = nowhere;
  };

  // A window gains most at home on the device with its parameters; or at home, while its parameters go to the
  // host between uses; or away. Parameters that are in memory over all gaps need not be written.
  double gain_of(const HeldWindow& w) {
    const Choice state = state_away(w.state), gradient = best_of(w.gradient, 0);
    const Choice gradient_at_home = gradient_of_home(w);
    const double written = disk_worth * static_cast<double>(w.written);
    const double home =
        link_worth * static_cast<double>(w.links_at_home) + on_device(w.state, 0) + gradient_at_home.gain;
    double kept = written, some = 0, all = written;
    for (const HeldGap& param : w.params) {
      kept += on_device(param, param.links);
      some += best_of(param, param.links).gain;
      all += somewhere(param).gain;
    }
    const double moved_down = w.params.empty() ? 0 : link_worth * static_cast<double>(w.params[0].bytes);
    const double left = std::max(some, all) - moved_down;
    const double at_home = home + std::max(kept, left),
                 away = state.gain + gradient.gain + std::max(some, all);
    const bool rests = at_home > away;
    take(w.state, rests ? device : state.place);
    take(w.gradient, rests ? gradient_at_home.place : gradient.place);
    for (const HeldGap& param : w.params) {
      if (rests && kept > left)
        take(param, device);
      else
        take(param, all > some ? somewhere(param).place : best_of(param, param.links).place);
    }
    return std::max(at_home, away);
  }

  // The host updates it: what is on the device, if only in between, moves down and up.
  Choice state_away(const HeldGap& h) const {
    const double worth = disk_worth * static_cast<double>(h.disk);
    const double moved = 2 * link_worth * static_cast<double>(h.bytes);
    const Choice in_host{worth - cost(h, host), host}, in_either{worth - cost(h, either) - moved, either};
    const Choice& best = in_host.gain > in_either.gain ? in_host : in_either;
    return best.gain > 0 ? best : Choice{};
  }

  // The gradient waits there for its update, or moves down and comes back.
  Choice gradient_of_home(const HeldWindow& w) const {
    const double stays = on_device(w.gradient, w.gradient.links);
    Choice away{in_either(w.gradient), either};
    if (away.gain <= 0) away = {};
    away.gain -= link_worth * static_cast<double>(w.gradient.bytes);
    return stays > away.gain ? Choice{stays, device} : away;
  }

  // `links`: bytes that the devices' links save if it stays on the device.
  Choice best_of(const HeldGap& h, u64 links) const {
    const Choice held = somewhere(h, links);
    return held.gain > 0 ? held : Choice{};
  }
  Choice somewhere(const HeldGap& h) const { return somewhere(h, h.links); }
  Choice somewhere(const HeldGap& h, u64 links) const {
    const double here = on_device(h, links), there = in_either(h);
    return here > there ? Choice{here, device} : Choice{there, either};
  }

  double on_device(const HeldGap& h, u64 links) const {
    return link_worth * static_cast<double>(links) + disk_worth * static_cast<double>(h.disk) -
           cost(h, device);
  }
  double in_either(const HeldGap& h) const {
    return disk_worth * static_cast<double>(h.disk) - cost(h, either);
  }

  // Content takes room of its place, and of both tiers together.
  double cost(const HeldGap& h, u32 place) const {
    if (h.bytes == 0) return 0;
    const double own = place == either ? 0 : prices_over(h, sum_[place]);
    return static_cast<double>(h.bytes) * (own + prices_over(h, sum_[either]));
  }
  double prices_over(const HeldGap& h, const std::vector<double>& sum) const {
    const double before = h.begin < 0 ? sum[positions_] - sum[at(h.begin)] : 0;
    return before + sum[static_cast<u64>(h.end + 1)] - sum[h.begin < 0 ? 0 : static_cast<u64>(h.begin)];
  }

  void take(const HeldGap& h, u32 place) {
    if (place == nowhere || h.bytes == 0) return;
    if (place != either) add(h, change_[place]);
    add(h, change_[either]);
  }
  void add(const HeldGap& h, std::vector<double>& change) const {
    const double bytes = static_cast<double>(h.bytes);
    change[h.begin < 0 ? 0 : static_cast<u64>(h.begin)] += bytes;
    change[static_cast<u64>(h.end + 1)] -= bytes;
    if (h.begin < 0) change[at(h.begin)] += bytes;
  }

  // REQUIRES: the position lies in the turn before.
  u64 at(i32 position) const { return positions_ - static_cast<u64>(-position); }

  const HeldContents contents_;
  const u64 positions_;
  const std::array<std::vector<double>, places> capacity_;
  std::array<std::vector<double>, places> price_, slope_, way_;
  std::array<std::vector<double>, places> change_;  // of the bytes held, from position to position
  std::array<std::vector<double>, places> sum_;     // of the prices before a position
  double last_ = 0;                                 // value
};

}  // namespace

u64 most_saved_weighed(const HeldContents& contents, const std::vector<u64>& of_devices,
                       const std::vector<u64>& of_host, u64 reached) {
  constexpr double rounding = 1e-9;  // of sums in double
  Dual dual(compact(contents, of_devices, of_host));
  return static_cast<u64>(std::ceil(dual.best(static_cast<double>(reached)) * (1 + rounding)));
}

u64 weighed(const std::array<Bytes, link_count>& bytes) {
  const auto of = [&](LinkKind kind) { return bytes[static_cast<u32>(kind)].value; };
  return of(LinkKind::h2d) + of(LinkKind::d2h) +
         disk_weight * (of(LinkKind::disk_read) + of(LinkKind::disk_write));
}

}  // namespace tidepool
