// What an op does on the CPU: finds its operands and calls kernels. No threads of its own.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <vector>

#include "engine/executor.h"
#include "executor/cpu/arenas.h"
#include "executor/cpu/chunk_ledger.h"
#include "executor/step_source.h"
#include "kernels/adamw.h"
#include "tidepool/core_pool.h"
#include "tidepool/model_graph.h"

namespace tidepool {

class Kernels;

// At rest only: the next evaluation's head also gives the logits of one row.
struct LogitsRequest {
  u32 micro_batch = 0;
  u32 row = 0;              // of [B * T]
  std::span<float> logits;  // [V]; empty: none wanted
};

struct OpRunnerParts {
  const Plan& plan;
  const ModelGraph& graph;
  CorePool& pool;
  Kernels& kernels;
  StepSource& source;
  const TierMemory& memory;
  ChunkLedger& ledger;
  u64 seed = 0;
};

// run() is called by one thread per lane; the plan's edges order what ops share. Loss, norm partials and
// flags live here rather than in the plan's `scalars` frame: the host both makes and reads them.
class OpRunner {
 public:
  explicit OpRunner(const OpRunnerParts&);

  // Runs one op of an ordered lane to its end. Errors: the data source's.
  Result<void> run(const Issue&);
  Nanos now() const;

  // Bytes copied so far over h2d or d2h.
  Bytes copied(LinkKind link) const { return Bytes{copied_[static_cast<u32>(link)].load(std::memory_order_relaxed)}; }
  // REQUIRES: the step's `norm` has completed, and at most two later steps have begun.
  StepResult result(u64 step) const;
  // At rest: what evaluations have summed since the last call.
  EvalResult take_eval();
  void request_logits(const LogitsRequest& request) { logits_ = request; }

 private:
  class Operands;
  static constexpr u32 steps_kept = 4;

  struct StepScalars {
    u64 step = 0;
    double loss_sum = 0;
    double grad_norm = 0;
    u64 target_tokens = 0;
    bool skip = false;
  };
  struct TensorPartials {
    u64 begin = 0, count = 0;  // in partials_
  };
  // Block checksums of one update, per kind in operand order.
  struct HashScratch {
    std::array<std::vector<u64>, 4> hashes;
  };

  Result<void> load_batch(const Issue&);
  void copy(const Issue&);
  void forward(const Issue&);
  void backward(const Issue&);
  void gradient(const Issue&);
  void norm(const Issue&);
  void update(const Issue&);
  AdamWScalars scalars_of(const Issue&) const;
  StepScalars& begin_step(u64 step);
  u64 count_targets(const i32* targets) const;
  void index_partials();
  void index_decay();

  const OpRunnerParts parts_;
  const std::chrono::steady_clock::time_point origin_;
  std::array<StepScalars, steps_kept> steps_{};
  std::vector<std::vector<TensorPartials>> tensor_partials_;  // [window][tensor]
  std::vector<double> partials_;                              // in tensor order; of the step in backward
  std::vector<std::vector<std::vector<DecaySegment>>> decay_; // [window][cut]
  std::array<HashScratch, 2> hash_scratch_;                   // host lane, compute lane
  std::array<std::atomic<u64>, link_count> copied_{};
  EvalResult eval_;
  LogitsRequest logits_;
};

}  // namespace tidepool
