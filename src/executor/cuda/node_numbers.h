// NodeNumbers makes the numbers of a step that several nodes with GPUs train together: in the host, because
// gradients are summed there and other nodes' numbers arrive there.
#pragma once

#include <memory>
#include <span>

#include "executor/cuda/device_numbers.h"
#include "executor/shared/executor_common.h"
#include "executor/shared/step_numbers.h"

namespace tidepool {

// THREADS: as StepNumbers; finish() on the engine's thread.
class NodeNumbers {
 public:
  // REQUIRES: all arguments outlive the object; the numbers are in the order of devices.
  NodeNumbers(ExecutorCommon&, std::span<const std::unique_ptr<DeviceNumbers>>);

  void set_loss_scale(const LossScale& scale) { numbers_.set_loss_scale(scale); }
  void add_gradient(u32 window, u64 begin, u64 elements, const std::byte* grad) {
    numbers_.add_gradient(window, begin, elements, grad, common_.pool);
  }
  // REQUIRES: the head's backward of all this node's micro-batches has completed.
  void pack(u64 step, std::span<std::byte> packed);
  // Makes the step's result from the numbers of all nodes, and hands it to the devices.
  // REQUIRES: they have been packed, or received.
  void finish(const Issue& norm);
  RoutingResult routing(u64 step) const { return numbers_.routing(step); }
  u64 votes(u64 step) const { return numbers_.votes(step); }

 private:
  DeviceNumbers& of_head(u32 micro_batch) const;

  ExecutorCommon& common_;
  const std::span<const std::unique_ptr<DeviceNumbers>> devices_;
  StepNumbers numbers_;
};

}  // namespace tidepool
