// OpRunner runs ops of devices on the CPU: it finds their operands and calls kernels. It has no threads of
// its own.
#pragma once

#include <vector>

#include "executor/shared/block_op.h"
#include "executor/shared/executor_common.h"
#include "executor/shared/step_numbers.h"
#include "executor/shared/update_op.h"

namespace tidepool {

class OpRunner final : public LaneWork {
 public:
  // `kernels`: by device.
  // REQUIRES: all arguments outlive the runner.
  OpRunner(ExecutorCommon&, std::vector<Kernels*> kernels);

  Result<void> run(const Issue&) override;

  // REQUIRES: the step's `norm` has completed, and at most two later steps have begun.
  StepResult result(u64 step) const { return numbers_.result(step); }
  RoutingResult routing(u64 step) const { return numbers_.routing(step); }
  // Several nodes.
  void add_gradient(u32 window, u64 begin, u64 elements, const std::byte* grad) {
    numbers_.add_gradient(window, begin, elements, grad, common_.pool);
  }
  void pack(u64 step, std::span<std::byte> packed) {
    numbers_.pack(step, common_.vote.load(std::memory_order_relaxed), packed);
  }
  u64 votes(u64 step) const { return numbers_.votes(step); }
  // REQUIRES: at rest.
  void set_loss_scale(const LossScale& scale) { numbers_.set_loss_scale(scale); }
  LossScale loss_scale_of(u64 step) const { return numbers_.loss_scale_of(step); }

 private:
  void copy(const Issue&);
  void forward(const Issue&);
  void backward(const Issue&);
  void gradient(const Issue&);
  void norm(const Issue&);
  void update(const Issue&);
  void all_gather(const Issue&);
  void reduce_scatter(const Issue&);
  void copy_bytes(std::span<const std::byte> from, std::span<std::byte> to);

  ExecutorCommon& common_;
  const std::vector<Kernels*> kernels_;
  const BlockOpParts block_;
  StepNumbers numbers_;
  std::vector<UpdateOp> updates_;  // by device
};

}  // namespace tidepool
