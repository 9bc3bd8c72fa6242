// StepSource gives an executor the data of a step and its settings; the trainer implements it.
#pragma once

#include <algorithm>

#include "base/result.h"
#include "base/types.h"
#include "kernels/gradient/step_result.h"
#include "optimizers/optimizer.h"
#include "tidepool/batch_arrays.h"
#include "tidepool/objective.h"

namespace tidepool {

struct BatchRequest {
  u64 step = 0;         // step as given to the engine's run
  u32 micro_batch = 0;  // number within the whole step
  bool evaluation = false;
};

struct StepSettings {
  OptimizerSettings optimizer;
  double max_grad_norm = 0;  // 0: no clipping
  LossScaling loss_scaling;  // for fp16; otherwise the scale stays 1
  u64 target_tokens = 1;     // non-ignored targets of the whole step, all micro-batches
};

// THREADS: called on the executor's lane threads, several at once.
class StepSource {
 public:
  virtual ~StepSource() = default;
  // Fills tokens and targets; make_empty() fills places without a token. `starts`, if present, is zero on
  // entry: each sequence is one document. Errors: a fault of the data ends the run.
  virtual Result<void> load_batch(const BatchRequest&, const BatchArrays&) = 0;
  // A pure function of the step: called several times, also after that step's forward.
  virtual StepSettings settings(u64 step) const = 0;
  // Micro-batches of the step without any token: routers' losses are means over the others. Pure as
  // settings(), and called by many ops: takes constant time.
  virtual u32 empty_micro_batches(u64 /*step*/) const { return 0; }
};

// RETURNS: how many of the step's micro-batches hold tokens.
inline u32 filled_micro_batches(const StepSource& source, u64 step, u32 micro_batches) {
  return std::max(micro_batches - std::min(micro_batches, source.empty_micro_batches(step)), 1u);
}

// Sums over the targets of an evaluation, and their number.
struct EvalResult {
  Sums sums;
  u64 targets = 0;

  double loss() const { return sums[Sum::loss] / static_cast<double>(targets); }
  void add(const EvalResult& other) { sums.add(other.sums), targets += other.targets; }
};

}  // namespace tidepool
