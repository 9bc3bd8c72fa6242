// Batches on their way in, and what evaluations sum up.
#pragma once

#include <mutex>
#include <vector>

#include "engine/executor.h"
#include "executor/shared/arenas.h"
#include "executor/shared/step_source.h"
#include "tidepool/model_graph.h"

namespace tidepool {

// Losses and target counts of evaluations, by micro-batch, so that they add up in one order whichever
// lane made them first. Any thread.
class EvaluationSums {
 public:
  EvaluationSums();
  // `index`: of the micro-batch among all since the last take().
  void add_loss(u64 index, double loss_sum);
  void add_targets(u64 index, u64 target_tokens);
  EvalResult take();  // at rest

 private:
  EvalResult& at(u64 index);

  std::mutex mutex_;
  std::vector<EvalResult> parts_;
};

// Where an evaluation's micro-batch adds what it finds.
u64 evaluation_index(const Plan&, const Issue&);

// Fills the batch in host memory; counts an evaluation's targets. Errors: the data source's.
Result<void> run_load_batch(const Plan&, const ModelGraph&, const TierMemory&, StepSource&, EvaluationSums&,
                            const Issue&);

}  // namespace tidepool
