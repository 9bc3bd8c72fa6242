// HostWork runs the host lane: batches, updates of chunk sets in host memory, and sums over nodes.
#pragma once

#include "executor/shared/device_lanes.h"
#include "executor/shared/executor_common.h"
#include "executor/shared/row_lookup.h"
#include "executor/shared/update_op.h"

namespace tidepool {

class HostWork final : public LaneWork {
 public:
  // Asks the lanes for a step's result only with clipping, after the step's norm.
  // REQUIRES: both arguments outlive the object.
  HostWork(ExecutorCommon& common, DeviceLanes& lanes) : common_(common), lanes_(lanes), update_(common) {}
  Result<void> run(const Issue&) override;
  // REQUIRES: outlives the object; before the first op, if the plan looks rows up.
  void set_lookup(RowLookup& lookup) { lookup_ = &lookup; }

 private:
  void combine(const Issue&);

  ExecutorCommon& common_;
  DeviceLanes& lanes_;
  UpdateOp update_;
  RowLookup* lookup_ = nullptr;
};

}  // namespace tidepool
