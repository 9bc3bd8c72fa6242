// A fixed list of segment runs for an engine.
#pragma once

#include <utility>
#include <vector>

#include "engine/engine.h"

namespace tidepool::test {

// `steps` steps of training.
inline std::vector<SegmentRun> training_runs(u64 steps, bool clipping) {
  std::vector<SegmentRun> runs = {{SegmentKind::forward_backward, 1}};
  for (u64 step = 2; step <= steps; ++step) runs.push_back({SegmentKind::body, step});
  if (clipping) runs.push_back({SegmentKind::drain, steps + 1});
  return runs;
}

class SegmentList final : public NextSegment {
 public:
  explicit SegmentList(std::vector<SegmentRun> runs) : runs_(std::move(runs)) {}
  std::optional<SegmentRun> next() override {
    if (at_ == runs_.size()) return std::nullopt;
    return runs_[at_++];
  }
  u64 asked() const { return at_; }

 private:
  std::vector<SegmentRun> runs_;
  u64 at_ = 0;
};

}  // namespace tidepool::test
