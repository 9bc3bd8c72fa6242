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
  // REQUIRES: the numbers outlive the object; they are in the order of devices.
  RoutingSum(const Plan&, std::span<const std::unique_ptr<DeviceNumbers>>);

  // RETURNS: the step's routing, valid until two more steps have begun; empty without experts.
  // REQUIRES: the `norm` of `step` has completed, at most two steps ago.
  RoutingResult sum(u64 step);

 private:
  const u32 micro_batches_;
  const std::span<const std::unique_ptr<DeviceNumbers>> numbers_;  // by device
  std::array<std::vector<i64>, steps_kept> tokens_;                // [experts] by slot
};

}  // namespace tidepool
