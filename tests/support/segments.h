// A fixed list of segment runs for an engine.
#pragma once

#include <utility>
#include <vector>

#include "engine/engine.h"

namespace tidepool::testing {

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

}  // namespace tidepool::testing
