// TraceRecorder records when each op ran, for trace.json: a bounded list of completed ops.
#pragma once

#include <string>
#include <vector>

#include "engine/engine.h"

namespace tidepool {

struct TracedOp {
  const Segment* segment = nullptr;
  OpId op{};
  u64 step = 0;
  Nanos started{};
  Nanos finished{};

  LaneId lane() const { return segment->ops[index(op)].lane; }
};

// Keeps the first events up to its capacity: they show warm-up and several steady steps. All memory is taken
// in the constructor.
class TraceRecorder final : public EngineObserver {
 public:
  TraceRecorder(const Plan& plan, u64 events_max) : plan_(plan) { events_.reserve(events_max); }

  void completed(const Issue& issue, const Completion& completion) override {
    if (events_.size() == events_.capacity()) {
      ++dropped_;
      return;
    }
    events_.push_back({issue.segment, issue.op, issue.step, completion.started, completion.finished});
  }

  const std::vector<TracedOp>& events() const { return events_; }
  u64 dropped() const { return dropped_; }
  std::string name(const TracedOp&) const;  // "forward block 3 micro-batch 0"

 private:
  const Plan& plan_;
  std::vector<TracedOp> events_;
  u64 dropped_ = 0;
};

}  // namespace tidepool
