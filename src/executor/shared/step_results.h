// StepResults exchanges numbers with training, evaluation and generation: results of steps and evaluations,
// and the loss scale that steps begin with.
#pragma once

#include <span>

#include "executor/shared/step_source.h"
#include "kernels/router/router_totals.h"

namespace tidepool {

// Asks the next evaluation's head for the logits of one row.
struct LogitsRequest {
  u32 micro_batch = 0;
  u32 row = 0;              // row of [B * T]
  std::span<float> logits;  // [V], in host memory; empty: no request

  bool wants(u32 of_micro_batch) const { return !logits.empty() && micro_batch == of_micro_batch; }
};

// Takes the outputs of the targets of evaluations (ObjectiveRule::output).
class TargetOutputs {
 public:
  virtual ~TargetOutputs() = default;
  // RETURNS: host memory for an evaluation's micro-batch, [B, T, ObjectiveRule::outputs()], by its number
  // since the run of the engine began. It is filled when that has ended.
  // THREADS: lane threads, several at once, each for another micro-batch.
  virtual std::span<float> place(u64 micro_batch) = 0;
};

// Routing of a step's tokens to experts.
struct RoutingResult {
  RouterLosses losses;            // means over the micro-batches that hold tokens
  std::span<const i64> tokens{};  // [layers with experts, E] tokens that chose the expert; empty: no experts
};

// Place to which the head's backward adds a micro-batch's routing; null: the model has no experts.
struct RoutingPlace {
  RouterLosses* losses = nullptr;
  i64* tokens = nullptr;  // as RoutingResult::tokens
};

// RETURNS: the mean over the micro-batches that hold tokens. `of`: the losses of a micro-batch; empty ones
// have zeros. The order of sums is theirs, wherever the losses are.
template <class Of>
RouterLosses mean_router_losses(const StepSource& source, u64 step, u32 micro_batches, Of&& of) {
  RouterLosses mean;
  const u32 filled = filled_micro_batches(source, step, micro_batches);
  for (u32 m = 0; m < micro_batches; ++m) {
    const RouterLosses& losses = of(m);
    mean.balance += losses.balance / filled;
    mean.z += losses.z / filled;
    mean.entropy += losses.entropy / filled;
  }
  return mean;
}

// THREADS: the engine's thread.
class StepResults {
 public:
  virtual ~StepResults() = default;

  // REQUIRES: the `norm` of `step` has completed, at most two steps ago.
  virtual StepResult result(u64 step) const = 0;
  // The same, valid until two more steps have begun.
  virtual RoutingResult routing(u64 step) const = 0;

  // Several nodes. From now on this node's part of a step carries these bits to all nodes.
  virtual void vote(u64 bits) = 0;
  // RETURNS: the votes of all nodes in a step's numbers, together.
  // REQUIRES: as result().
  virtual u64 votes(u64 step) const = 0;

  // RETURNS: true if the step's result changes nothing in its updates, which have assumed one
  // (Plan::speculates). REQUIRES: as result().
  virtual bool assumed_right(u64 step) const = 0;

  // ---- at rest (no op in flight)

  // The step will be replayed, and have this result.
  virtual void replay(u64 step, const StepResult&) = 0;
  // Sets the loss scale of the next step; the initial scale is 1.
  virtual void set_loss_scale(const LossScale&) = 0;
  // Takes the sums of evaluation segments since the last call, over all nodes: all must call it. Blocks.
  // Errors: those of the transport.
  virtual Result<EvalResult> take_eval() = 0;
  // Makes the next evaluations also write the logits of one row; an empty request ends that.
  virtual void request_logits(const LogitsRequest&) = 0;
  // The next evaluations fill it; null ends that. REQUIRES: the graph's objective has an output.
  virtual void request_outputs(TargetOutputs*) = 0;
};

}  // namespace tidepool
