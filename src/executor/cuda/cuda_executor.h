// The CUDA executor: compute, h2d and d2h are streams of a GPU, comm is a stream on each of several, all
// ordered among each other by events on the devices; host Adam, batches and the disk are the lanes that the
// CPU executor has too.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "executor/cuda/collective_watch.h"
#include "executor/cuda/cuda_device.h"
#include "executor/cuda/cuda_work.h"
#include "executor/cuda/op_graphs.h"
#include "executor/shared/disk_lanes.h"
#include "executor/shared/host_work.h"
#include "executor/shared/lane_book.h"

namespace tidepool {

struct CudaExecutorParts {
  CorePool& pool;
  struct Device {
    CudaDevice* device = nullptr;
    Kernels* kernels = nullptr;    // on device->compute()
    Kernels* tuning = nullptr;     // CudaKernelsMade::tuning, or null
    std::span<std::byte> numbers;  // of the device's memory, as gpu_reserved() says
  };
  std::vector<Device> devices;
  Collectives* collectives = nullptr;  // between them; null: one device
  StepSource& source;
  std::span<std::byte> host_arena;       // pinned
  std::span<std::byte> staging;          // in it, a multiple of 8 KiB: transfers at rest go through it
  OpenDisk open_disk;                    // empty: the plan uses no disk
  u32 disk_depth = 32;                   // requests in flight per disk lane
  u64 seed = 0;                          // of dropout
  Bytes graphs{};                        // of each device's memory, beside its arena, for graphs of ops
  Nanos patience{1'000'000'000};         // how long wait() waits for a completion
  Nanos rest_patience{300'000'000'000};  // how long a piece of a transfer at rest may take
  // As in ExecutorRequest.
  std::function<void()> products_tuned = {};
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

  StepResult result(u64 step) const override { return numbers_.front()->result(step); }
  std::array<Bytes, link_count> moved() const override;
  Bytes moved_between_devices() const override { return work_->collected(); }
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
  EvalResult take_eval() override { return evaluation_.take(); }
  void set_loss_scale(const LossScale&) override;
  void request_logits(const LogitsRequest& request) override { work_->request_logits(request); }
  Disk* disk() override { return disk_lanes_->disk(); }

  CudaExecutor(const CudaExecutor&) = delete;
  CudaExecutor& operator=(const CudaExecutor&) = delete;

 private:
  CudaExecutor(const Plan&, const ModelGraph&, const CudaExecutorParts&);
  Result<void> start();
  Result<void> start_numbers();
  Result<void> start_lanes();
  Result<void> tune_products();
  std::vector<LaneId> suspected_lanes(LaneId told) const;
  std::string suspects(const Issue& told) const;
  Result<void> start_lane(LaneId, std::vector<StreamLaneParts::Stream>);
  CudaDevice& device(u32 number) const { return *parts_.devices[number].device; }
  // A piece of a chunk between its home on a device and the staging memory, and waits for it.
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
  std::vector<std::unique_ptr<DeviceNumbers>> numbers_;  // by device
  std::unique_ptr<CudaWork> work_;
  std::unique_ptr<OpGraphs> graphs_;  // around it: what lanes hand over
  std::unique_ptr<HostWork> host_work_;
  std::vector<cudaEvent_t> ends_;  // ring by sequence: of ops on streams
  std::unique_ptr<DiskLanes> disk_lanes_;
  std::unique_ptr<CollectiveWatch> watch_;            // of several devices; outlives the lanes
  std::vector<std::unique_ptr<StreamLane>> streams_;  // by lane number; of the host and the disk none
  std::unique_ptr<LaneThread> host_;
};

}  // namespace tidepool
