// HashedExecutor runs plans on one device without a model: each op's results are a hash of what the op read,
// so one stale byte anywhere changes the final state. Reads, writes and commits go through the real DiskLanes
// and CommitLane, to a disk that serves requests at once.
//
// It runs one op at a time, in an order drawn from a seed among the orders that the engine allows. So a seed
// repeats a run, and a missing edge of a plan shows in some seeds.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "executor/shared/disk_lanes.h"
#include "executor/shared/executor_common.h"
#include "io/simulated_medium.h"
#include "tests/support/cpu_rig.h"

namespace tidepool::test {

// Runs tasks on the calling thread.
class CallerPool final : public CorePool {
 public:
  void run(Priority, u32 count, TaskFn fn) override {
    for (u32 task = 0; task < count; ++task) fn.call(fn.context, task, 0);
  }
  u32 workers() const override { return 1; }
  std::byte* scratch(u32) const override { return nullptr; }
  Bytes scratch_bytes() const override { return {}; }
};

// Memory of a plan's tiers, for one executor after the other.
struct HashedMemory {
  explicit HashedMemory(const Plan& plan)
      : device(plan.tiers[0].planned_peak.value), host(plan.tiers[1].planned_peak.value), staging(16 * kib) {}
  void forget();  // as in a new process

  PageBuffer device, host, staging;
};

class HashedExecutor final : public Executor {
 public:
  struct Request {
    const Plan& plan;  // of one device and one node, with several versions
    const ModelGraph& graph;
    StepSource& source;
    HashedMemory& memory;
    SimulatedMedium& medium;
    const CommitRequest& commits;
    u64 seed = 0;  // of the order
  };
  // REQUIRES: everything in the request outlives the executor.
  // Errors: io if the medium was stopped.
  static Result<std::unique_ptr<HashedExecutor>> create(const Request&);

  u32 slots_free(LaneId lane) const override { return common_.book.slots_free(lane); }
  void submit(const Issue&, std::span<const u64> in_flight) override;
  std::span<const Completion> wait() override;
  Nanos now() const override { return common_.clock.now(); }

  // ---- at rest, as TrainingExecutor does it

  Result<void> write_first_state();
  Result<void> take_over();
  // RETURNS: a hash of all persistent content.
  Result<u64> hash_state();

  // ---- a save in the background

  // The save reads the last commit from now on.
  void begin_save();
  bool saves() const { return hold_.has_value(); }
  // RETURNS: true if the medium still has what the save reads.
  bool end_save(const SimulatedMedium&);

 private:
  struct Queued {
    Issue issue;
    std::vector<u64> in_flight;
  };
  explicit HashedExecutor(const Request&);
  bool may_run(u64 place) const;
  bool is_waiting(u64 sequence) const;
  void run(const Issue&);
  void copy(const Issue&);
  std::span<std::byte> content_of(const Operand&) const;
  void hash(const Issue&);
  Result<std::span<const std::byte>> content(ChunkId);

  CallerPool pool_;
  ExecutorCommon common_;
  std::mt19937_64 random_;
  std::vector<Queued> queue_;
  std::vector<u64> may_run_;
  std::vector<std::byte> buffer_;
  std::vector<u64> hashes_;
  std::unique_ptr<DiskLanes> disk_lanes_;
  StateCommit saved_;
  std::optional<CommitHold> hold_;
};

}  // namespace tidepool::test
