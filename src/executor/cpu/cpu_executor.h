// The CPU executor: device memory is an arena, copies are copies, the disk is real, and compute, host
// Adam, copies and checksums share one pool of cores.
//
// compute, h2d and d2h of each device, comm and host are one thread each that drives the pool (they mostly
// sleep); the disk lanes are DiskLanes. All devices are made of the same cores. The engine's thread calls everything here.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "executor/cpu/disk_lanes.h"
#include "executor/cpu/lane_thread.h"

namespace tidepool {

struct CpuExecutorParts {
  CorePool& pool;
  std::vector<Kernels*> kernels;  // one per device
  StepSource& source;
  std::vector<std::span<std::byte>> device_arenas;  // plan.tiers[].planned_peak bytes each; page-aligned
  std::span<std::byte> host_arena;
  std::span<std::byte> staging;       // a multiple of 8 KiB, page-aligned: disk transfers at rest go through it
  OpenDisk open_disk;                 // empty: the plan uses no disk
  u32 disk_depth = 32;                // requests in flight per disk lane
  u64 seed = 0;                       // of dropout
  Nanos patience{1'000'000'000};      // how long wait() waits for a completion
  Nanos rest_patience{300'000'000'000};  // how long a piece of a transfer at rest may take
};

class CpuExecutor final : public Executor {
 public:
  // The plan, the graph and all parts must outlive it. Fails where the disk does not open.
  static Result<std::unique_ptr<CpuExecutor>> create(const Plan&, const ModelGraph&, const CpuExecutorParts&);
  ~CpuExecutor() override;  // waits for what was submitted

  u32 slots_free(LaneId) const override;
  void submit(const Issue&, std::span<const u64> in_flight) override;
  std::span<const Completion> wait() override;
  Nanos now() const override { return runner_.now(); }

  // REQUIRES: the `norm` of `step` has completed, at most two steps ago.
  StepResult result(u64 step) const { return runner_.result(step); }

  // Useful bytes so far, by what was really copied, read and written.
  std::array<Bytes, link_count> moved() const;
  // Disk transfers, those at rest included, that took more than one go.
  u64 io_retries() const { return disk_lanes_->retries(); }
  // Something was handed over and has not come back: the destructor would wait for it.
  bool busy() const;
  // The same between devices.
  Bytes moved_between_devices() const { return runner_.collected(); }
  // Highest frame end that an op used.
  Bytes high_water(Tier tier) const { return high_water_.of(tier); }

  // ---- at rest (no op in flight)

  // The whole content of a persistent chunk in its home. Disk: checked against its checksum.
  Result<void> read_home(ChunkId, std::span<std::byte> out);
  Result<void> write_home(ChunkId, std::span<const std::byte> content);
  // The home itself, to read and write; empty where it is on disk.
  std::span<std::byte> home_memory(ChunkId) const;
  // Runs one forward, backward or gradient op, now and here, on whatever its frames hold: to time it.
  void run_at_rest(const Segment&, OpId);
  // Frames between disk and memory with a full queue, unchecked: to time the disk. REQUIRES: a disk.
  Result<void> transfer_raw(std::span<const RawTransfer> transfers) { return disk_lanes_->transfer_raw(transfers); }
  // What evaluation segments have summed since the last call.
  EvalResult take_eval() { return runner_.take_eval(); }
  // The next evaluations also write the logits of one row; an empty request ends that.
  void request_logits(const LogitsRequest& request) { runner_.request_logits(request); }
  Disk* disk() { return disk_lanes_->disk(); }  // null: none

  CpuExecutor(const CpuExecutor&) = delete;
  CpuExecutor& operator=(const CpuExecutor&) = delete;

 private:
  CpuExecutor(const Plan&, const ModelGraph&, const CpuExecutorParts&);
  u32 lane_number(LaneId) const;

  const Plan& plan_;
  const CpuExecutorParts parts_;
  const TierMemory memory_;
  ChunkLedger ledger_;
  OpRunner runner_;
  CompletionBoard board_;
  HighWater high_water_;
  std::vector<u32> held_;              // by lane number: submitted and not yet taken by wait()
  std::vector<u32> lane_by_sequence_;  // ring
  std::unique_ptr<DiskLanes> disk_lanes_;
  std::vector<std::unique_ptr<LaneThread>> threads_;  // by lane number; of the disk lanes none
};

}  // namespace tidepool
