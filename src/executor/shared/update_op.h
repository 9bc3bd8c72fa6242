// UpdateOp updates a chunk set in host memory, with checksums of the chunks that go to disk next.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "engine/executor.h"
#include "executor/lanes/tier_memory.h"
#include "executor/shared/chunk_ledger.h"
#include "executor/shared/replayed_steps.h"
#include "executor/shared/step_source.h"
#include "optimizers/optimizer.h"
#include "tidepool/core_pool.h"
#include "tidepool/model_graph.h"

namespace tidepool {

struct ExecutorCommon;

// An update without decay, rounding, tensors, scratch and checksums. `ids` are the chunks of its arrays;
// arrays of which the chunk set has nothing are null.
struct UpdateOperands {
  UpdateChunk chunk;
  u32 rule = 0;  // ModelGraph::rules
  UpdatePart part = UpdatePart::whole;
  u32 arrays = 0;  // how many places there are
  std::array<ChunkId, update_arrays_max> ids{};
};
UpdateOperands update_operands(const Plan&, const ModelGraph&, const TierMemory&, const Issue&);

// RETURNS: the source of the random bits of a chunk set's update.
Rounding rounding_of(const ModelGraph&, const Chunk&);

// One per updating thread, because each has its own scratch.
class UpdateOp {
 public:
  explicit UpdateOp(ExecutorCommon&);  // REQUIRES: `common` outlives it
  // `result`: the one that updates of the step take (result_for_updates).
  void run(const Issue&, const StepResult& result);

 private:
  ExecutorCommon& common_;
  std::array<std::vector<u64>, update_arrays_max> hashes_;  // block checksums of one update, by array
  std::vector<std::byte> scratch_;
};

// A rule's scalars, computed from the result that the step has, or is assumed to have. If the norm changes no
// update, ignores it.
UpdateScalars scalars_of_step(const Plan&, const UpdateRule&, const StepSource&, u64 step,
                              const StepResult& result);

// RETURNS: the result that the updates of a step take: its own. Updates that speculate take the one from an
// earlier try of the step, or else assume one. `numbers`: has result() and loss_scale_of(), as DeviceLanes.
template <class Numbers>
StepResult result_for_updates(const Plan& plan, const ReplayedSteps& replayed, const Numbers& numbers,
                              u64 step) {
  if (plan.clipping) return numbers.result(step);
  if (!plan.speculates) return {};
  if (const StepResult* known = replayed.find(step)) return *known;
  return {.loss_scale = numbers.loss_scale_of(step)};
}

}  // namespace tidepool
