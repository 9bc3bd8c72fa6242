// RoutingSum adds up the routing of a step, of which each device has copied its share to the host.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "executor/cuda/device_numbers.h"
#include "executor/shared/step_results.h"

namespace tidepool {

// THREADS: the engine's thread.
class RoutingSum {
 public:
  // `head`: the block whose devices add up the routing.
  // REQUIRES: all references outlive the object; numbers are in the order of devices.
  RoutingSum(const Plan&, const StepSource&, u32 head, std::span<const std::unique_ptr<DeviceNumbers>>);

  // RETURNS: the step's routing, valid until two more steps have begun; empty without experts.
  // REQUIRES: the `norm` of `step` has completed, at most two steps ago.
  RoutingResult sum(u64 step);

 private:
  const Plan& plan_;
  const StepSource& source_;
  const u32 head_;
  const std::span<const std::unique_ptr<DeviceNumbers>> numbers_;  // by device
  std::array<std::vector<i64>, steps_kept> tokens_;                // [experts] by slot
};

}  // namespace tidepool
