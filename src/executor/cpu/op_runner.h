// OpRunner runs ops on the CPU: it finds their operands and calls kernels. It has no threads of its own.
#pragma once

#include <atomic>
#include <vector>

#include "executor/cpu/step_numbers.h"
#include "executor/shared/batch_op.h"
#include "executor/shared/block_op.h"
#include "executor/shared/lane_work.h"
#include "executor/shared/training_executor.h"
#include "executor/shared/update_op.h"

namespace tidepool {

struct OpRunnerParts {
  const Plan& plan;
  const ModelGraph& graph;
  CorePool& pool;
  const std::vector<Kernels*>& kernels;  // by device
  StepSource& source;
  const TierMemory& memory;
  ChunkLedger& ledger;
  u64 seed = 0;
};

class OpRunner final : public LaneWork {
 public:
  explicit OpRunner(const OpRunnerParts&);

  Result<void> run(const Issue&) override;

  // Bytes copied so far over h2d or d2h.
  Bytes copied(LinkKind link) const {
    return Bytes{copied_[static_cast<u32>(link)].load(std::memory_order_relaxed)};
  }
  // REQUIRES: the step's `norm` has completed, and at most two later steps have begun.
  StepResult result(u64 step) const { return numbers_.result(step); }
  // Bytes that devices received from each other so far.
  Bytes collected() const { return Bytes{collected_.load(std::memory_order_relaxed)}; }
  // REQUIRES: at rest.
  void set_loss_scale(const LossScale& scale) { numbers_.set_loss_scale(scale); }
  // Takes the sums of evaluations since the last call.
  // REQUIRES: at rest.
  EvalResult take_eval() { return evaluation_.take(); }
  // REQUIRES: at rest.
  void request_logits(const LogitsRequest& request) { logits_ = request; }

 private:
  void copy(const Issue&);
  void forward(const Issue&);
  void backward(const Issue&);
  void gradient(const Issue&);
  void update(const Issue&);
  void all_gather(const Issue&);
  void reduce_scatter(const Issue&);
  void copy_bytes(std::span<const std::byte> from, std::span<std::byte> to);

  const OpRunnerParts parts_;
  const BlockOpParts block_;
  const DecayIndex decay_;
  StepNumbers numbers_;
  EvaluationSums evaluation_;
  std::vector<UpdateOp> updates_;  // host lane, then compute lanes by device
  std::array<std::atomic<u64>, link_count> copied_{};
  std::atomic<u64> collected_{0};
  LogitsRequest logits_;
};

}  // namespace tidepool
