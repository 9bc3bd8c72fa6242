// Numbers that steps and evaluations come to, and what they begin with: for training, evaluation and
// generation.
#pragma once

#include <span>

#include "executor/shared/step_source.h"

namespace tidepool {

// The next evaluation's head also gives the logits of one row.
struct LogitsRequest {
  u32 micro_batch = 0;
  u32 row = 0;              // of [B * T]
  std::span<float> logits;  // [V], in host memory; empty: none wanted

  bool wants(u32 of_micro_batch) const { return !logits.empty() && micro_batch == of_micro_batch; }
};

// THREADS: the engine's.
class StepResults {
 public:
  virtual ~StepResults() = default;

  // REQUIRES: the `norm` of `step` has completed, at most two steps ago.
  virtual StepResult result(u64 step) const = 0;

  // ---- at rest (no op in flight)

  // Sets the scale of the next step's loss; it is 1 until then.
  virtual void set_loss_scale(const LossScale&) = 0;
  // RETURNS: sums of the evaluation segments since the last call.
  virtual EvalResult take_eval() = 0;
  // The next evaluations also write the logits of one row; an empty request ends that.
  virtual void request_logits(const LogitsRequest&) = 0;
};

}  // namespace tidepool
