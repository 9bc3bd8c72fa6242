// EvaluationRuns runs evaluation segments one after the other, numbered from 0.
#pragma once

#include <functional>

#include "engine/engine.h"

namespace tidepool {

class EvaluationRuns final : public NextSegment, public EngineObserver {
 public:
  // `finished` is called after each segment, with the number of finished segments.
  explicit EvaluationRuns(
      u64 count, std::function<void(u64)> finished = [](u64) {})
      : count_(count), finished_(std::move(finished)) {}
  std::optional<SegmentRun> next() override {
    if (done_ == count_) return std::nullopt;
    return SegmentRun{SegmentKind::evaluation, done_++};
  }

  void segment_finished(const SegmentRun& run) override { finished_(run.step + 1); }

 private:
  const u64 count_;
  const std::function<void(u64)> finished_;
  u64 done_ = 0;
};

}  // namespace tidepool
