// Which op is certainly done before which, from lane order and edges: one clock per ordered lane.
// Disk ops complete in any order, so they are known done only through the ops that waited for them.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "tidepool/check.h"
#include "tidepool/plan.h"

namespace tidepool {

class HappensBefore {
 public:
  u32 size() const { return static_cast<u32>(ops_.size()); }

  // Adds an op that starts after `deps` (and after the ops of its lane, if that is ordered).
  u32 add(LaneId lane, std::span<const u32> deps) {
    const u32 self = size();
    Op op{.lane = lane_index(lane), .ordered = is_ordered(lane.kind)};
    op.clock = {};
    if (op.ordered) {
      const u32 before = last_[op.lane];
      if (before != none && before >= rest_) op.clock = ops_[before].clock;
      op.clock[op.lane] = ++count_[op.lane];
      last_[op.lane] = self;
    }
    for (u32 dep : deps) {
      CHECK(dep < self, dep, self);
      for (u32 l = 0; l < lanes_max; ++l)
        if (l != op.lane || !op.ordered) op.clock[l] = std::max(op.clock[l], ops_[dep].clock[l]);
      if (!ops_[dep].ordered) ops_[dep].waiters.push_back(self);
    }
    ops_.push_back(std::move(op));
    return self;
  }

  // Everything added so far completes before anything added from now on.
  void rest() { rest_ = size(); }

  bool before(u32 a, u32 b) const {
    if (a < rest_ && b >= rest_) return true;
    if (ops_[a].ordered) return ops_[b].clock[ops_[a].lane] >= ops_[a].clock[ops_[a].lane];
    for (u32 waiter : ops_[a].waiters)
      if (waiter == b || (waiter < b && before(waiter, b))) return true;
    return false;
  }

  // Adds to a list of readers of which all must be waited for: of an ordered lane the last stands
  // for all.
  void add_reader(std::vector<u32>& readers, u32 self) const {
    for (u32& r : readers)
      if (ops_[self].ordered && ops_[r].ordered && ops_[r].lane == ops_[self].lane) {
        r = self;
        return;
      }
    readers.push_back(self);
  }

 private:
  static constexpr u32 lanes_max = 16;  // one device: 4 + 3; several devices widen this

  struct Op {
    u32 lane = 0;
    bool ordered = false;
    std::array<u32, lanes_max> clock{};
    std::vector<u32> waiters;  // of disk ops
  };

  u32 lane_index(LaneId lane) {
    for (u32 l = 0; l < lanes_.size(); ++l)
      if (lanes_[l] == lane) return l;
    CHECK(lanes_.size() < lanes_max, lanes_.size());
    lanes_.push_back(lane);
    return static_cast<u32>(lanes_.size()) - 1;
  }

  std::vector<LaneId> lanes_;
  std::array<u32, lanes_max> count_{};
  std::array<u32, lanes_max> last_ = [] {
    std::array<u32, lanes_max> a;
    a.fill(none);
    return a;
  }();
  std::vector<Op> ops_;
  u32 rest_ = 0;
};

}  // namespace tidepool
