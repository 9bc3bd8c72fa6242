// RoundJudge decides when to stop measuring: measurements come in rounds, until two in a row predict the same
// step.
//
// One long measurement of each rate would show only the moment in which it was taken. A change of the
// machine's speed shows only if the same rate is measured again.
#pragma once

#include <algorithm>
#include <vector>

#include "base/types.h"

namespace tidepool {

class RoundJudge {
 public:
  explicit RoundJudge(double begin_seconds) : begin_(begin_seconds) {}

  static constexpr u32 rounds_max = 6;
  static constexpr double agreement = 1.05;        // limit of longer / shorter of two predicted steps
  static constexpr double patience_seconds = 1.5;  // for rounds that disagree; two rounds are always made

  // Call after a round.
  // RETURNS: true if another round is needed.
  bool needs_another(double step_seconds, double now_seconds) {
    steps_.push_back(step_seconds);
    if (steps_.size() < 2) return true;
    const auto [shorter, longer] = std::minmax(steps_[steps_.size() - 2], step_seconds);
    settled_ = longer <= agreement * shorter;
    return !settled_ && steps_.size() < rounds_max && now_seconds - begin_ < patience_seconds;
  }

  // Number of last rounds that count: the two that agree, because earlier rounds were made at another speed
  // or before caches were warm; or all.
  u32 counting() const { return settled_ ? 2 : static_cast<u32>(steps_.size()); }

 private:
  double begin_;
  std::vector<double> steps_;
  bool settled_ = false;
};

}  // namespace tidepool
