#include "executor/sim/fluid.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"

namespace tidepool {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

}  // namespace

void Flow::need(u32 resource, double amount) {
  if (amount <= 0) return;
  const auto found = std::ranges::find(demands, resource, &Demand::resource);
  if (found != demands.end())
    found->amount += amount;
  else
    demands.push_back({resource, amount});
}

void Fluid::set_capacity(u32 resource, double per_s) {
  if (capacity_[resource] == per_s) return;
  capacity_[resource] = per_s;
  shared_ = false;
}

double Fluid::alone(const Flow& flow) const {
  double seconds = 0;
  for (const Demand& d : flow.demands) seconds = std::max(seconds, d.amount / capacity_[d.resource]);
  return flow.delay + seconds;
}

void Fluid::add(Flow flow) {
  const double delay = flow.delay, work = alone(flow) - delay;
  Active active{.flow = std::move(flow), .delay_left = delay, .left = work > 0 ? 1.0 : 0.0, .alone = work};
  const auto at = std::upper_bound(active_.begin(), active_.end(), active.flow.id,
                                   [](u64 id, const Active& a) { return id < a.flow.id; });
  active_.insert(at, std::move(active));
  shared_ = false;
}

u64 Fluid::finish_next() {
  CHECK(!active_.empty(), now_);
  for (;;) {
    if (!shared_) share();
    double step = never;
    u64 first = active_.size();
    bool ends = false;
    for (u64 i = 0; i < active_.size(); ++i) {
      const Active& a = active_[i];
      const bool works = a.delay_left <= 0;
      const double seconds = works ? (a.left <= 0 ? 0 : a.left / a.speed) : a.delay_left;
      if (seconds >= step) continue;
      step = seconds, first = i, ends = works || a.left <= 0;
    }
    CHECK(first < active_.size(), now_);
    now_ += step;
    for (Active& a : active_) {
      if (a.delay_left > 0)
        a.delay_left -= step;
      else
        a.left -= a.speed * step;
    }
    if (ends) {
      const u64 id = active_[first].flow.id;
      active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(first));
      shared_ = false;
      return id;
    }
    active_[first].delay_left = 0;
    shared_ = false;
  }
}

void Fluid::share() {
  free_ = capacity_;
  u32 lowest = 0;
  for (Active& a : active_) {
    a.speed = 0;
    lowest = std::max(lowest, a.flow.priority);
  }
  for (u32 priority = 0; priority <= lowest; ++priority) fill(priority);
  shared_ = true;
}

void Fluid::fill(u32 priority) {
  // A share that rounding left at almost nothing must not stop a flow for ever.
  constexpr double least_share = 1e-6;
  std::vector<Active*> open;
  for (Active& a : active_)
    if (a.flow.priority == priority && a.delay_left <= 0 && a.left > 0) open.push_back(&a);
  load_.assign(capacity_.size(), 0.0);
  const auto count = [&](const Active& a, double sign) {
    for (const Demand& d : a.flow.demands) load_[d.resource] += sign * d.amount / a.alone;
  };
  for (const Active* a : open) count(*a, 1.0);
  double reached = 0;  // share of its speed alone, equal for all open flows
  while (!open.empty()) {
    double raise = 1.0 - reached;
    for (u32 r = 0; r < capacity_.size(); ++r)
      if (load_[r] > 0) raise = std::min(raise, std::max(free_[r], 0.0) / load_[r]);
    reached += raise;
    for (u32 r = 0; r < capacity_.size(); ++r) free_[r] -= raise * load_[r];
    const auto full = [&](const Active* a) {
      for (const Demand& d : a->flow.demands)
        if (free_[d.resource] <= 1e-9 * capacity_[d.resource]) return true;
      return reached >= 1.0;
    };
    const auto done =
        std::stable_partition(open.begin(), open.end(), [&](const Active* a) { return !full(a); });
    if (done == open.end()) break;  // cannot happen: the raise filled a resource or reached 1
    for (auto it = done; it != open.end(); ++it) {
      count(**it, -1.0);
      (*it)->speed = std::max(reached, least_share) / (*it)->alone;
    }
    open.erase(done, open.end());
  }
}

}  // namespace tidepool
