// HappensBefore says which op is certainly done before which other, from lane order and edges: one clock per
// ordered lane. Ops of disk and network complete in any order, so only the ops that waited for one prove that
// it is done.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "base/check.h"
#include "tidepool/plan.h"

namespace tidepool {

class HappensBefore {
 public:
  HappensBefore(u32 devices, u32 nodes)
      : lanes_max_(devices * lanes_of_device + lanes_of_all + (nodes > 1 ? lanes_of_net : 0)),
        count_(lanes_max_),
        last_(lanes_max_, none) {}

  u32 size() const { return static_cast<u32>(ops_.size()); }

  // Adds an op that starts after `deps` (and after the earlier ops of its lane, if the lane is ordered).
  u32 add(LaneId lane, std::span<const u32> deps) {
    const u32 self = size();
    Op op{.lane = lane_index(lane), .ordered = is_ordered(lane.kind)};
    clocks_.resize(clocks_.size() + lanes_max_, 0);
    u32* clock = clock_of(self);
    if (op.ordered) {
      const u32 before = last_[op.lane];
      if (before != none && before >= rest_) std::copy_n(clock_of(before), lanes_max_, clock);
      clock[op.lane] = ++count_[op.lane];
      last_[op.lane] = self;
    }
    for (u32 dep : deps) {
      CHECK(dep < self, dep, self);
      const u32* other = clock_of(dep);
      for (u32 l = 0; l < lanes_max_; ++l)
        if (l != op.lane || !op.ordered) clock[l] = std::max(clock[l], other[l]);
      if (!ops_[dep].ordered) ops_[dep].waiters.push_back(self);
    }
    ops_.push_back(std::move(op));
    return self;
  }

  // Everything added so far completes before anything added from now on.
  void rest() { rest_ = size(); }

  bool before(u32 a, u32 b) const {
    if (a < rest_ && b >= rest_) return true;
    if (ops_[a].ordered) return clock_of(b)[ops_[a].lane] >= clock_of(a)[ops_[a].lane];
    return before_by_waiters(a, b);
  }

  // Adds to a list of readers that a writer must wait for. For an ordered lane the last reader stands for
  // all.
  void add_reader(std::vector<u32>& readers, u32 self) const {
    for (u32& r : readers)
      if (ops_[self].ordered && ops_[r].ordered && ops_[r].lane == ops_[self].lane) {
        r = self;
        return;
      }
    readers.push_back(self);
  }

 private:
  static constexpr u32 lanes_of_device = 4, lanes_of_all = 4;  // compute, h2d, d2h, comm; disk, host, comm
  static constexpr u32 lanes_of_net = 2;

  struct Op {
    u32 lane = 0;
    bool ordered = false;
    std::vector<u32> waiters;  // ops of disk and network only: ops that waited for this op
  };

  // Chains of disk ops that wait for disk ops meet again and again: each op is looked at once.
  bool before_by_waiters(u32 a, u32 b) const {
    seen_.resize(ops_.size(), 0);
    ++search_;
    next_.assign(1, a);
    while (!next_.empty()) {
      const Op& op = ops_[next_.back()];
      next_.pop_back();
      for (u32 waiter : op.waiters) {
        if (waiter == b) return true;
        if (waiter > b || seen_[waiter] == search_) continue;
        seen_[waiter] = search_;
        const Op& other = ops_[waiter];
        if (!other.ordered)
          next_.push_back(waiter);
        else if (clock_of(b)[other.lane] >= clock_of(waiter)[other.lane])
          return true;
      }
    }
    return false;
  }

  u32 lane_index(LaneId lane) {
    for (u32 l = 0; l < lanes_.size(); ++l)
      if (lanes_[l] == lane) return l;
    CHECK(lanes_.size() < lanes_max_, lanes_.size());
    lanes_.push_back(lane);
    return static_cast<u32>(lanes_.size()) - 1;
  }

  u32* clock_of(u32 op) { return clocks_.data() + u64{op} * lanes_max_; }
  const u32* clock_of(u32 op) const { return clocks_.data() + u64{op} * lanes_max_; }

  const u32 lanes_max_;
  std::vector<LaneId> lanes_;
  std::vector<u32> count_, last_;
  std::vector<Op> ops_;
  std::vector<u32> clocks_;  // [op][lane]: number of the lane's ops that are done before the op
  u32 rest_ = 0;

  mutable std::vector<u32> seen_, next_;  // the current search: op -> its search number; ops to look at
  mutable u32 search_ = 0;
};

}  // namespace tidepool
