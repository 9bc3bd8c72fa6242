#include "run/outputs/training_memory.h"

#include <algorithm>

#include "engine/trace.h"

namespace tidepool {

Bytes training_memory(const Config& config, const Plan& plan) {
  constexpr Bytes report{2 * mib};
  // Six series of doubles, and their text in report.json and on the page; measured with 5,000 steps.
  constexpr u64 bytes_per_step = 400;
  // An op in the predicted step, in step.json and in its text; measured with 180,000 ops.
  constexpr u64 bytes_per_op = 160;
  // A run without an end does not need that memory.
  constexpr u64 steps_max = 100'000;
  const u64 steps = std::min(config.train.max_steps, steps_max),
            ops = plan.segment(SegmentKind::body).ops.size();
  const Bytes numbers = report + Bytes{steps * bytes_per_step};
  if (!config.output.trace) return numbers;
  const u64 events = std::min(trace_events_max, std::min(steps, trace_events_max) * ops);
  return numbers + Bytes{events * sizeof(TracedOp)} + Bytes{ops * bytes_per_op};
}

}  // namespace tidepool
