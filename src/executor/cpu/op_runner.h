// What an op does on the CPU: finds its operands and calls kernels. No threads of its own.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <vector>

#include "engine/executor.h"
#include "executor/cpu/arenas.h"
#include "executor/cpu/chunk_ledger.h"
#include "executor/cpu/step_numbers.h"
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
  const std::vector<Kernels*>& kernels;  // by device
  StepSource& source;
  const TierMemory& memory;
  ChunkLedger& ledger;
  u64 seed = 0;
};

// run() is called by one thread per lane; the plan's edges order what ops share.
class OpRunner {
 public:
  explicit OpRunner(const OpRunnerParts&);

  // Runs one op of an ordered lane to its end. Errors: the data source's.
  Result<void> run(const Issue&);
  Nanos now() const;

  // Bytes copied so far over h2d or d2h.
  Bytes copied(LinkKind link) const { return Bytes{copied_[static_cast<u32>(link)].load(std::memory_order_relaxed)}; }
  // REQUIRES: the step's `norm` has completed, and at most two later steps have begun.
  StepResult result(u64 step) const { return numbers_.result(step); }
  // Bytes that devices got from each other so far.
  Bytes collected() const { return Bytes{collected_.load(std::memory_order_relaxed)}; }
  // At rest: what evaluations have summed since the last call.
  EvalResult take_eval() { return numbers_.take_evaluation(); }
  void request_logits(const LogitsRequest& request) { logits_ = request; }

 private:
  class Operands;
  // Block checksums of one update, per kind in operand order.
  struct HashScratch {
    std::array<std::vector<u64>, 4> hashes;
  };

  Result<void> load_batch(const Issue&);
  void copy(const Issue&);
  void forward(const Issue&);
  void backward(const Issue&);
  void gradient(const Issue&);
  void all_gather(const Issue&);
  void reduce_scatter(const Issue&);
  void copy_bytes(std::span<const std::byte> from, std::span<std::byte> to);
  void update(const Issue&);
  AdamWScalars scalars_of(const Issue&) const;
  u64 count_targets(const i32* targets) const;
  void index_decay();

  const OpRunnerParts parts_;
  const std::chrono::steady_clock::time_point origin_;
  StepNumbers numbers_;
  std::vector<std::vector<std::vector<DecaySegment>>> decay_; // [window][cut]
  std::vector<HashScratch> hash_scratch_;                     // host lane, then compute lanes by device
  std::array<std::atomic<u64>, link_count> copied_{};
  std::atomic<u64> collected_{0};
  LogitsRequest logits_;
};

}  // namespace tidepool
