// CpuExecutor runs plans on the CPU: device memory is an arena, copies are memory copies, the disk is real,
// and compute, host Adam, copies and checksums share one pool of cores.
//
// compute, h2d and d2h of each device, comm and host have one thread each that drives the pool (these threads
// mostly sleep); the disk lanes are DiskLanes. All devices use the same cores.
// THREADS: the engine's thread calls everything here.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "executor/cpu/op_runner.h"
#include "executor/shared/disk_lanes.h"
#include "executor/shared/lane_book.h"
#include "executor/shared/lane_thread.h"

namespace tidepool {

struct CpuExecutorParts {
  CorePool& pool;
  std::vector<Kernels*> kernels;  // one per device
  StepSource& source;
  std::vector<std::span<std::byte>> device_arenas;  // plan.tiers[].planned_peak bytes each; page-aligned
  std::span<std::byte> host_arena;
  std::span<std::byte> staging;   // a multiple of 8 KiB, page-aligned: buffer of disk transfers at rest
  OpenDisk open_disk;             // empty: the plan uses no disk
  u32 disk_depth = 32;            // requests in flight per disk lane
  u64 seed = 0;                   // seed of dropout
  Nanos patience{1'000'000'000};  // timeout of wait() for a completion
  Nanos rest_patience{300'000'000'000};  // timeout of one piece of a transfer at rest
};

class CpuExecutor final : public TrainingExecutor {
 public:
  // REQUIRES: the plan, the graph and all parts outlive the executor.
  // Errors: if the disk does not open.
  static Result<std::unique_ptr<CpuExecutor>> create(const Plan&, const ModelGraph&, const CpuExecutorParts&);
  ~CpuExecutor() override;  // waits for what was submitted

  u32 slots_free(LaneId lane) const override { return book_.slots_free(lane); }
  void submit(const Issue&, std::span<const u64> in_flight) override;
  std::span<const Completion> wait() override;
  Nanos now() const override { return clock_.now(); }

  StepResult result(u64 step) const override { return runner_.result(step); }
  std::array<Bytes, link_count> moved() const override;
  Bytes moved_between_devices() const override { return runner_.collected(); }
  u64 io_retries() const override { return disk_lanes_->retries(); }
  bool busy() const override { return book_.busy() || disk_lanes_->busy_at_rest(); }
  Bytes high_water(Tier tier) const override { return book_.high_water(tier); }

  Result<void> read_home(ChunkId, std::span<std::byte> out) override;
  Result<void> begin_write_home(ChunkId, std::span<const std::byte> content) override;
  Result<void> end_write_home(ChunkId) override;
  Result<void> clear_home(ChunkId) override;
  std::span<std::byte> home_memory(ChunkId) const override;
  Result<void> run_at_rest(const Segment&, OpId) override;
  Result<void> transfer_raw(std::span<const RawTransfer> transfers) override {
    return disk_lanes_->transfer_raw(transfers);
  }
  EvalResult take_eval() override { return runner_.take_eval(); }
  void set_loss_scale(const LossScale& scale) override { runner_.set_loss_scale(scale); }
  void request_logits(const LogitsRequest& request) override { runner_.request_logits(request); }
  Disk* disk() override { return disk_lanes_->disk(); }

  CpuExecutor(const CpuExecutor&) = delete;
  CpuExecutor& operator=(const CpuExecutor&) = delete;

 private:
  CpuExecutor(const Plan&, const ModelGraph&, const CpuExecutorParts&);
  Result<void> start_lanes();

  const Plan& plan_;
  const CpuExecutorParts parts_;
  const ExecutorClock clock_;
  const TierMemory memory_;
  ChunkLedger ledger_;
  LaneBook book_;
  CompletionBoard board_;
  OpRunner runner_;
  std::unique_ptr<DiskLanes> disk_lanes_;
  std::vector<std::unique_ptr<LaneThread>> threads_;  // by lane number; null for disk lanes
};

}  // namespace tidepool
