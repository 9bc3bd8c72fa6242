// CudaExecutor runs plans on GPUs: compute, h2d and d2h are streams of a GPU, comm is a stream on each of
// several GPUs, and events on the devices order them. Host Adam, batches and the disk use the same lanes as
// the CPU executor.
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
    Kernels* tuning = nullptr;     // CudaKernelsMade::tuning; may be null
    std::span<std::byte> numbers;  // device memory, size as gpu_reserved() says
  };
  std::vector<Device> devices;
  Collectives* collectives = nullptr;  // null: one device
  StepSource& source;
  std::span<std::byte> host_arena;       // pinned
  std::span<std::byte> staging;          // in host_arena, a multiple of 8 KiB: buffer of transfers at rest
  OpenDisk open_disk;                    // empty: the plan uses no disk
  u32 disk_depth = 32;                   // requests in flight per disk lane
  u64 seed = 0;                          // seed of dropout
  Bytes graphs{};                        // memory of each device, beside its arena, for graphs of ops
  Nanos patience{1'000'000'000};         // timeout of wait() for a completion
  Nanos rest_patience{300'000'000'000};  // timeout of one piece of a transfer at rest
  // As in ExecutorRequest.
  std::function<void()> products_tuned = {};
};

class CudaExecutor final : public TrainingExecutor {
 public:
  // REQUIRES: the plan, the graph and all parts outlive the executor.
  // Errors: the disk does not open, or CUDA refuses.
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
  // Copies a piece of a chunk between its home on a device and the staging memory, and waits for the copy.
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
  std::unique_ptr<OpGraphs> graphs_;  // wraps work_; lanes submit to it
  std::unique_ptr<HostWork> host_work_;
  std::vector<cudaEvent_t> ends_;  // ring by sequence: ends of ops on streams
  std::unique_ptr<DiskLanes> disk_lanes_;
  std::unique_ptr<CollectiveWatch> watch_;            // with several devices; outlives the lanes
  std::vector<std::unique_ptr<StreamLane>> streams_;  // by lane number; null for host and disk
  std::unique_ptr<LaneThread> host_;
};

}  // namespace tidepool
