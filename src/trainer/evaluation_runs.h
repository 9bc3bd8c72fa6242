// Evaluation segments one after the other, numbered from 0.
#pragma once

#include "engine/engine.h"

namespace tidepool {

class EvaluationRuns final : public NextSegment, public EngineObserver {
 public:
  explicit EvaluationRuns(u64 count) : count_(count) {}
  std::optional<SegmentRun> next() override {
    if (done_ == count_) return std::nullopt;
    return SegmentRun{SegmentKind::evaluation, done_++};
  }

 private:
  const u64 count_;
  u64 done_ = 0;
};

}  // namespace tidepool
