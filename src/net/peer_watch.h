// PeerWatch knows how long each other node has been silent, and when this node's next heartbeat is due.
//
// It counts time in which this process ran, not the clock: a process that was stopped (Ctrl-Z, a paused
// container) has not listened meanwhile, and must not blame the others. It is told the time.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "base/types.h"

namespace tidepool {

class PeerWatch {
 public:
  PeerWatch(u32 node, u32 nodes, double timeout_seconds)
      : node_(node),
        timeout_(timeout_seconds),
        period_(std::min(1.0, timeout_seconds / 10)),
        heard_(nodes, 0.0),
        excused_(nodes, false) {}

  double period_seconds() const { return period_; }

  // REQUIRES: never goes back.
  void advance(double now_seconds) {
    // Twice the period: a busy machine may delay a thread that long, and then the time does count.
    if (started_) listened_ += std::min(now_seconds - now_, 2 * period_);
    started_ = true;
    now_ = now_seconds;
  }

  void heard(u32 peer) { heard_[peer] = listened_; }
  // If true, the peer's silence is no fault: it said goodbye.
  void excuse(u32 peer, bool excused) { excused_[peer] = excused; }

  // RETURNS: true once per period.
  bool beat_due() {
    if (listened_ < next_beat_) return false;
    next_beat_ = listened_ + period_;
    return true;
  }

  // RETURNS: the node that has been silent for the longest, if longer than the timeout.
  std::optional<u32> silent() const {
    std::optional<u32> out;
    for (u32 peer = 0; peer < heard_.size(); ++peer) {
      if (peer == node_ || excused_[peer] || listened_ - heard_[peer] < timeout_) continue;
      if (!out || heard_[peer] < heard_[*out]) out = peer;
    }
    return out;
  }

 private:
  u32 node_;
  double timeout_, period_;
  bool started_ = false;
  double now_ = 0, listened_ = 0, next_beat_ = 0;
  std::vector<double> heard_;  // by node, in listened time
  std::vector<bool> excused_;
};

}  // namespace tidepool
