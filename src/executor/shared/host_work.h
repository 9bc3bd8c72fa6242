// HostWork runs ops of the host lane, batches and updates, for executors whose devices are not made of the
// host's cores.
#pragma once

#include <functional>

#include "executor/shared/batch_op.h"
#include "executor/shared/lane_work.h"
#include "executor/shared/update_op.h"

namespace tidepool {

struct HostWorkParts {
  UpdateOpParts update;
  StepSource& source;
  EvaluationSums& evaluation;
  std::function<StepResult(u64 step)> result;  // called only with clipping, after the step's norm
};

class HostWork final : public LaneWork {
 public:
  explicit HostWork(const HostWorkParts&);
  Result<void> run(const Issue&) override;

 private:
  const HostWorkParts parts_;
  const DecayIndex decay_;
  UpdateOp update_;
};

}  // namespace tidepool
