// UpdateOp updates a chunk set in host memory: AdamW, and checksums of the chunks that go to disk next.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "engine/executor.h"
#include "executor/shared/arenas.h"
#include "executor/shared/chunk_ledger.h"
#include "executor/shared/step_source.h"
#include "kernels/adamw/adamw.h"
#include "tidepool/core_pool.h"
#include "tidepool/model_graph.h"

namespace tidepool {

// DecayIndex holds runs of equal weight decay, per chunk set.
class DecayIndex {
 public:
  DecayIndex(const Plan&, const ModelGraph&);
  std::span<const DecaySegment> of(u32 window, u32 cut) const { return runs_[window][cut]; }

 private:
  std::vector<std::vector<std::vector<DecaySegment>>> runs_;  // [window][cut]
};

// Arrays of an update, without decay and checksums. `ids` are the chunks that the update writes: param,
// master or master_low (none in fp32), momentum, variance.
struct UpdateOperands {
  AdamWChunk arrays;
  std::array<ChunkId, 4> ids{};
};
UpdateOperands update_operands(const Plan&, const TierMemory&, const Issue&);

struct UpdateOpParts {
  const Plan& plan;
  const ModelGraph& graph;
  CorePool& pool;
  const TierMemory& memory;
  ChunkLedger& ledger;
};

// One per updating thread, because each has its own scratch.
class UpdateOp {
 public:
  UpdateOp(const UpdateOpParts&, const DecayIndex&);  // REQUIRES: both outlive it
  void run(const Issue&, const AdamWScalars&);

 private:
  const UpdateOpParts parts_;
  const DecayIndex& decay_;
  std::array<std::vector<u64>, 4> hashes_;  // block checksums of one update, per kind in operand order
};

// With clipping, computes scalars from the step's norm; without, ignores `result`.
AdamWScalars update_scalars(const Plan&, const StepSource&, u64 step, const StepResult& result);

}  // namespace tidepool
