// Loads batches, and sums the losses of evaluations.
#pragma once

#include <mutex>
#include <vector>

#include "engine/executor.h"
#include "executor/lanes/tier_memory.h"
#include "executor/shared/step_source.h"
#include "net/transport.h"
#include "tidepool/model_graph.h"

namespace tidepool {

// EvaluationSums keeps losses and target counts of evaluations by micro-batch, so that they are summed in one
// order whichever lane makes them first.
// THREADS: any thread may call.
class EvaluationSums {
 public:
  EvaluationSums();
  // `index`: number of the micro-batch among all since the last take().
  Sums sums(u64 index);  // so far
  void set_sums(u64 index, const Sums&);
  void add_targets(u64 index, u64 targets);
  // `transport`: to the other nodes; null: none. Their parts are added.
  Result<EvalResult> take(Transport* transport = nullptr);  // REQUIRES: at rest

 private:
  EvalResult& at(u64 index);
  Result<void> add_other_nodes(Transport&);

  std::mutex mutex_;
  std::vector<EvalResult> parts_;
};

// RETURNS: the index in EvaluationSums of an evaluation's micro-batch.
u64 evaluation_index(const Plan&, const Issue&);

class RowLookup;

// Fills the batch in host memory and counts an evaluation's targets. Errors: those of the data source.
// `lookup`: null if the plan looks nothing up.
Result<void> run_load_batch(const Plan&, const ModelGraph&, const TierMemory&, StepSource&, EvaluationSums&,
                            RowLookup* lookup, const Issue&);

}  // namespace tidepool
