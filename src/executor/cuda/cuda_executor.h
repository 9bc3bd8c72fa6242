// The CUDA executor: compute, h2d and d2h are streams of a GPU, ordered among each other by events on the
// device; host Adam, batches and the disk are the lanes that the CPU executor has too.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "executor/cuda/cuda_device.h"
#include "executor/cuda/cuda_work.h"
#include "executor/host/disk_lanes.h"
#include "executor/host/host_work.h"
#include "executor/host/lane_book.h"

namespace tidepool {

struct CudaExecutorParts {
  CorePool& pool;
  CudaDevice& device;
  Kernels& kernels;              // on device.compute()
  std::span<std::byte> numbers;  // of the device's memory, as gpu_reserved() says
  StepSource& source;
  std::span<std::byte> host_arena;       // pinned
  std::span<std::byte> staging;          // in it, a multiple of 8 KiB: transfers at rest go through it
  OpenDisk open_disk;                    // empty: the plan uses no disk
  u32 disk_depth = 32;                   // requests in flight per disk lane
  u64 seed = 0;                          // of dropout
  Nanos patience{1'000'000'000};         // how long wait() waits for a completion
  Nanos rest_patience{300'000'000'000};  // how long a piece of a transfer at rest may take
};

class CudaExecutor final : public TrainingExecutor {
 public:
  // The plan, the graph and all parts must outlive it. Fails where the disk does not open, or CUDA refuses.
  static Result<std::unique_ptr<CudaExecutor>> create(const Plan&, const ModelGraph&,
                                                      const CudaExecutorParts&);
  ~CudaExecutor() override;  // waits for what was submitted

  u32 slots_free(LaneId lane) const override { return book_.slots_free(lane); }
  void submit(const Issue&, std::span<const u64> in_flight) override;
  std::span<const Completion> wait() override;
  Nanos now() const override { return clock_.now(); }

  StepResult result(u64 step) const override { return numbers_->result(step); }
  std::array<Bytes, link_count> moved() const override;
  Bytes moved_between_devices() const override { return Bytes{0}; }
  u64 io_retries() const override { return disk_lanes_->retries(); }
  bool busy() const override { return book_.busy() || disk_lanes_->busy_at_rest(); }
  Bytes high_water(Tier tier) const override { return book_.high_water(tier); }

  Result<void> read_home(ChunkId, std::span<std::byte> out) override;
  Result<void> write_home(ChunkId, std::span<const std::byte> content) override;
  std::span<std::byte> home_memory(ChunkId) const override;
  Result<void> run_at_rest(const Segment&, OpId) override;
  Result<void> transfer_raw(std::span<const RawTransfer> transfers) override {
    return disk_lanes_->transfer_raw(transfers);
  }
  EvalResult take_eval() override { return evaluation_.take(); }
  void request_logits(const LogitsRequest& request) override { work_->request_logits(request); }
  Disk* disk() override { return disk_lanes_->disk(); }

  CudaExecutor(const CudaExecutor&) = delete;
  CudaExecutor& operator=(const CudaExecutor&) = delete;

 private:
  CudaExecutor(const Plan&, const ModelGraph&, const CudaExecutorParts&);
  Result<void> start();
  Result<void> start_lane(LaneKind, cudaStream_t);
  // A piece of a chunk between its home on the device and the staging memory, and waits for it.
  Result<void> copy_at_rest(ChunkId, LaneKind, void* to, const void* from, u64 bytes);

  const Plan& plan_;
  const ModelGraph& graph_;
  const CudaExecutorParts parts_;
  const ExecutorClock clock_;
  const TierMemory memory_;
  ChunkLedger ledger_;
  LaneBook book_;
  CompletionBoard board_;
  EvaluationSums evaluation_;
  std::unique_ptr<DeviceNumbers> numbers_;
  std::unique_ptr<CudaWork> work_;
  std::unique_ptr<HostWork> host_work_;
  std::vector<cudaEvent_t> ends_;  // ring by sequence: of ops on streams
  std::unique_ptr<DiskLanes> disk_lanes_;
  std::array<std::unique_ptr<StreamLane>, 3> streams_;  // compute, h2d, d2h
  std::unique_ptr<LaneThread> host_;
};

}  // namespace tidepool
