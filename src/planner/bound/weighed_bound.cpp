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

constexpr u32 device = 0, host = 1, tiers = 2;
constexpr double link_worth = 1, disk_worth = disk_weight;

// Compact is contents and capacities of a circle in which neighbouring positions count as one, if all content
// covers either both or neither: then the least capacity of them is all that matters.
struct Compact {
  HeldContents contents;
  std::array<std::vector<double>, tiers> capacity;
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

Compact compact(HeldContents contents, const std::array<const std::vector<u64>*, tiers>& capacity) {
  const i32 positions = static_cast<i32>(capacity[device]->size());
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
  for (u32 t = 0; t < tiers; ++t)
    for (i32 i = 0; i < count; ++i)
      out.capacity[t].push_back(
          static_cast<double>(*std::min_element(capacity[t]->begin() + begins[static_cast<u64>(i)],
                                                capacity[t]->begin() + begins[static_cast<u64>(i) + 1])));
  return out;
}

// Dual has prices of a byte of device and host at each position. Its value at any prices is the worth of all
// memory at these prices, and what the content gains beyond the price of its best place.
class Dual {
 public:
  explicit Dual(Compact problem)
      : contents_(std::move(problem.contents)),
        positions_(problem.capacity[device].size()),
        capacity_(std::move(problem.capacity)) {
    for (u32 t = 0; t < tiers; ++t) {
      price_[t].assign(positions_, 0.0);
      change_[t].assign(positions_ + 1, 0.0);
      sum_[t].assign(positions_ + 1, 0.0);
      slope_[t].assign(positions_, 0.0);
    }
    way_ = slope_;
  }

  // Steps towards a value that is `hope` below the best one so far. The hope is halved when it is in vain.
  double best(double reached) {
    constexpr u32 patience = 1000;
    constexpr u64 work_max = 30'000'000;  // prices and places that are looked at: some 0.1 s
    const u64 steps_max = work_max / (tiers * positions_ + gaps());
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
    constexpr double kept = 0.95;
    double square = 0;
    for (u32 t = 0; t < tiers; ++t)
      for (u64 p = 0; p < positions_; ++p) {
        way_[t][p] = kept * way_[t][p] + slope_[t][p];
        if (price_[t][p] <= 0 && way_[t][p] > 0) way_[t][p] = 0;
        square += way_[t][p] * way_[t][p];
      }
    if (square == 0) return false;
    for (u32 t = 0; t < tiers; ++t)
      for (u64 p = 0; p < positions_; ++p)
        price_[t][p] = std::max(0.0, price_[t][p] - fall / square * way_[t][p]);
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
    for (u32 t = 0; t < tiers; ++t) {
      for (u64 p = 0; p < positions_; ++p) {
        sum_[t][p + 1] = sum_[t][p] + price_[t][p];
        sum += price_[t][p] * capacity_[t][p];
      }
      std::fill(change_[t].begin(), change_[t].end(), 0.0);
    }
    for (const HeldWindow& window : contents_.windows) sum += gain_of(window);
    for (const HeldGap& content : contents_.others) {
      const Choice best = best_of(content, content.links, 0);
      take(content, best.tier);
      sum += best.gain;
    }
    for (u32 t = 0; t < tiers; ++t) {
      double held = 0;
      for (u64 p = 0; p < positions_; ++p) slope_[t][p] = capacity_[t][p] - (held += change_[t][p]);
    }
    return last_ = sum;
  }

  // A window gains most either at home on the device or not; and then with parameters that are in memory all
  // around, which saves their write, or not.
  double gain_of(const HeldWindow& w) {
    const double moved_down_and_up = -2.0 * link_worth * static_cast<double>(w.state.bytes);
    const Choice state = best_of(w.state, 0, moved_down_and_up), gradient = best_of(w.gradient, 0, 0);
    const Choice gradient_at_home = gradient_of_home(w);
    const double written = disk_worth * static_cast<double>(w.written);
    double home = link_worth * static_cast<double>(w.links_at_home) + on_device(w.state, 0) +
                  gradient_at_home.gain + written;
    double some = 0, all = written;
    for (const HeldGap& param : w.params) {
      home += on_device(param, param.links);
      some += best_of(param, param.links, 0).gain;
      all += somewhere(param).gain;
    }
    const double beside = state.gain + gradient.gain + std::max(some, all);
    const bool rests = home > beside;
    take(w.state, rests ? device : state.tier);
    take(w.gradient, rests ? gradient_at_home.tier : gradient.tier);
    for (const HeldGap& param : w.params)
      take(param, rests ? device : all > some ? somewhere(param).tier : best_of(param, param.links, 0).tier);
    return std::max(home, beside);
  }

  struct Choice {
    double gain = 0;
    u32 tier = tiers;  // tiers: nowhere
  };
  // The gradient waits there for its update, or moves down and comes back.
  Choice gradient_of_home(const HeldWindow& w) const {
    const double stays = on_device(w.gradient, w.gradient.links);
    Choice away = best_of(w.gradient, 0, -1e300);
    away.gain -= link_worth * static_cast<double>(w.gradient.bytes);
    return stays > away.gain ? Choice{stays, device} : away;
  }

  // `links`: bytes that the device's links save. `extra`: what holding it on the device gains beside.
  Choice best_of(const HeldGap& h, u64 links, double extra) const {
    Choice best;
    if (const double gain = on_host(h); gain > best.gain) best = {gain, host};
    if (const double gain = on_device(h, links) + extra; gain > best.gain) best = {gain, device};
    return best;
  }
  Choice somewhere(const HeldGap& h) const {
    const double here = on_device(h, h.links), there = on_host(h);
    return here > there ? Choice{here, device} : Choice{there, host};
  }

  double on_device(const HeldGap& h, u64 links) const {
    return link_worth * static_cast<double>(links) + disk_worth * static_cast<double>(h.disk) -
           cost(h, device);
  }
  double on_host(const HeldGap& h) const { return disk_worth * static_cast<double>(h.disk) - cost(h, host); }

  double cost(const HeldGap& h, u32 tier) const {
    if (h.bytes == 0) return 0;
    const std::vector<double>& sum = sum_[tier];
    const double before = h.begin < 0 ? sum[positions_] - sum[at(h.begin)] : 0;
    const double here = sum[static_cast<u64>(h.end + 1)] - sum[h.begin < 0 ? 0 : static_cast<u64>(h.begin)];
    return static_cast<double>(h.bytes) * (before + here);
  }

  void take(const HeldGap& h, u32 tier) {
    if (tier == tiers || h.bytes == 0) return;
    std::vector<double>& change = change_[tier];
    const double bytes = static_cast<double>(h.bytes);
    change[h.begin < 0 ? 0 : static_cast<u64>(h.begin)] += bytes;
    change[static_cast<u64>(h.end + 1)] -= bytes;
    if (h.begin < 0) change[at(h.begin)] += bytes;
  }

  // REQUIRES: the position lies in the turn before.
  u64 at(i32 position) const { return positions_ - static_cast<u64>(-position); }

  const HeldContents contents_;
  const u64 positions_;
  const std::array<std::vector<double>, tiers> capacity_;
  std::array<std::vector<double>, tiers> price_, slope_, way_;
  std::array<std::vector<double>, tiers> change_;  // of the bytes held, from position to position
  std::array<std::vector<double>, tiers> sum_;     // of the prices before a position
  double last_ = 0;                                // value
};

}  // namespace

u64 most_saved_weighed(const HeldContents& contents, const std::vector<u64>& of_devices,
                       const std::vector<u64>& of_host, u64 reached) {
  Dual dual(compact(contents, {&of_devices, &of_host}));
  return static_cast<u64>(std::ceil(dual.best(static_cast<double>(reached))));
}

u64 weighed(const std::array<Bytes, link_count>& bytes) {
  const auto of = [&](LinkKind kind) { return bytes[static_cast<u32>(kind)].value; };
  return of(LinkKind::h2d) + of(LinkKind::d2h) +
         disk_weight * (of(LinkKind::disk_read) + of(LinkKind::disk_write));
}

}  // namespace tidepool
