// The update of a chunk set in host memory: AdamW, and the checksums of what will be written to disk.
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

// Runs of equal weight decay, per chunk set.
class DecayIndex {
 public:
  DecayIndex(const Plan&, const ModelGraph&);
  std::span<const DecaySegment> of(u32 window, u32 cut) const { return runs_[window][cut]; }

 private:
  std::vector<std::vector<std::vector<DecaySegment>>> runs_;  // [window][cut]
};

// Where an update's arrays lie, with `ids` of what it leaves: param, master or master_low (none in fp32),
// momentum, variance. Without decay and checksums.
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

// One per thread that updates: its scratch is its own.
class UpdateOp {
 public:
  UpdateOp(const UpdateOpParts&, const DecayIndex&);  // both outlive it
  void run(const Issue&, const AdamWScalars&);

 private:
  const UpdateOpParts parts_;
  const DecayIndex& decay_;
  std::array<std::vector<u64>, 4> hashes_;  // block checksums of one update, per kind in operand order
};

// With clipping: from the step's norm; without, `result` is not looked at.
AdamWScalars update_scalars(const Plan&, const StepSource&, u64 step, const StepResult& result);

}  // namespace tidepool
