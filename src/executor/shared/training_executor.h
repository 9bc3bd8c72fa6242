// The executor that holds a training state in real memory: what the engine, checkpoints, reports and
// measurements ask of it. Host lane, disk lanes and homes are its own; devices' lanes are whatever its
// devices are made of.
#pragma once

#include <array>
#include <memory>
#include <span>

#include "engine/executor.h"
#include "executor/shared/device_lanes.h"
#include "executor/shared/disk_lanes.h"
#include "executor/shared/executor_common.h"
#include "executor/shared/host_work.h"
#include "executor/shared/lane_thread.h"

namespace tidepool {

// The engine's thread calls everything here.
class TrainingExecutor final : public Executor {
 public:
  // The lanes are made with `common`. Fails where the disk does not open.
  static Result<std::unique_ptr<TrainingExecutor>> create(std::unique_ptr<ExecutorCommon> common,
                                                          std::unique_ptr<DeviceLanes> lanes);
  ~TrainingExecutor() override;  // waits for what was submitted
  TrainingExecutor(const TrainingExecutor&) = delete;
  TrainingExecutor& operator=(const TrainingExecutor&) = delete;

  u32 slots_free(LaneId lane) const override { return common_->book.slots_free(lane); }
  void submit(const Issue&, std::span<const u64> in_flight) override;
  std::span<const Completion> wait() override;
  Nanos now() const override { return common_->clock.now(); }

  // REQUIRES: the `norm` of `step` has completed, at most two steps ago.
  StepResult result(u64 step) const { return lanes_->result(step); }
  // Useful bytes so far, by what was really copied, read and written; the same between devices.
  std::array<Bytes, link_count> moved() const { return common_->moved.by_link(); }
  Bytes moved_between_devices() const { return common_->moved.between_devices(); }
  // Disk transfers, those at rest included, that took more than one go.
  u64 io_retries() const { return disk_lanes_->retries(); }
  // Something was handed over and has not come back: the destructor would wait for it.
  bool busy() const { return common_->book.busy() || disk_lanes_->busy_at_rest(); }
  // Highest frame end that an op used.
  Bytes high_water(Tier tier) const { return common_->book.high_water(tier); }

  // ---- at rest (no op in flight)

  // How the next step's loss is scaled; until this is called, by 1.
  void set_loss_scale(const LossScale& scale) { lanes_->set_loss_scale(scale); }

  // The whole content of a persistent chunk in its home. Disk: checked against its checksum.
  Result<void> read_home(ChunkId, std::span<std::byte> out);
  // A home on disk may be written while the caller goes on: `content` must stay as it is until
  // end_write_home. Of up to writes_at_rest_max chunks at a time.
  Result<void> begin_write_home(ChunkId, std::span<const std::byte> content);
  Result<void> end_write_home(ChunkId);
  Result<void> write_home(ChunkId id, std::span<const std::byte> content) {
    TRY(begin_write_home(id, content));
    return end_write_home(id);
  }
  // Zeros, which are not written to a disk where its file system keeps note of them.
  Result<void> clear_home(ChunkId);
  // The home itself, to read and write; empty where the host cannot reach it (disk, a GPU's memory).
  std::span<std::byte> home_memory(ChunkId) const;
  // Runs one forward, backward or gradient op to its end, on whatever its frames hold: to time it. Error: as
  // of a step's op.
  Result<void> run_at_rest(const Segment&, OpId);
  // Frames between disk and memory with a full queue, unchecked: to time the disk. REQUIRES: a disk.
  Result<void> transfer_raw(std::span<const RawTransfer> transfers) {
    return disk_lanes_->transfer_raw(transfers);
  }
  // What evaluation segments have summed since the last call.
  EvalResult take_eval() { return common_->evaluation.take(); }
  // The next evaluations also write the logits of one row; an empty request ends that.
  void request_logits(const LogitsRequest& request) { common_->logits = request; }
  Disk* disk() { return disk_lanes_->disk(); }  // null: none

 private:
  TrainingExecutor(std::unique_ptr<ExecutorCommon> common, std::unique_ptr<DeviceLanes> lanes);
  Result<void> start();
  const Frame& home_of(ChunkId id) const { return common_->plan.homes[index(id)]; }

  const std::unique_ptr<ExecutorCommon> common_;
  const std::unique_ptr<DeviceLanes> lanes_;
  HostWork host_work_;
  std::unique_ptr<DiskLanes> disk_lanes_;
  std::unique_ptr<LaneThread> host_;
};

}  // namespace tidepool
