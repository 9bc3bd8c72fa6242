// TrainingExecutor holds a training state in real memory, behind one interface for each user: the engine,
// checkpoints, reports, training and predictions. It owns host lane, disk lanes and homes; devices' lanes
// depend on the hardware.
#pragma once

#include <array>
#include <memory>
#include <span>

#include "engine/executor.h"
#include "executor/lanes/lane_thread.h"
#include "executor/shared/device_lanes.h"
#include "executor/shared/disk_lanes.h"
#include "executor/shared/executor_common.h"
#include "executor/shared/executor_counters.h"
#include "executor/shared/host_work.h"
#include "executor/shared/net_lanes.h"
#include "executor/shared/row_lookup.h"
#include "executor/shared/state_at_rest.h"
#include "executor/shared/step_results.h"

namespace tidepool {

// THREADS: the engine's thread calls everything here.
class TrainingExecutor final : public Executor,
                               public StateAtRest,
                               public ExecutorCounters,
                               public StepResults,
                               public TimedAtRest,
                               public CommittedState {
 public:
  // `lanes` were made with `common`.
  // Errors: the disk does not open.
  static Result<std::unique_ptr<TrainingExecutor>> create(std::unique_ptr<ExecutorCommon> common,
                                                          std::unique_ptr<DeviceLanes> lanes);
  ~TrainingExecutor() override;  // waits for submitted ops
  TrainingExecutor(const TrainingExecutor&) = delete;
  TrainingExecutor& operator=(const TrainingExecutor&) = delete;

  // ---- Executor
  u32 slots_free(LaneId lane) const override { return common_->book.slots_free(lane); }
  void submit(const Issue&, std::span<const u64> in_flight) override;
  std::span<const Completion> wait() override;
  Nanos now() const override { return common_->clock.now(); }

  // ---- StateAtRest
  Result<void> read_home(ChunkId, std::span<std::byte> out) override;
  Result<void> begin_write_home(ChunkId, std::span<const std::byte> content) override;
  Result<void> end_write_home(ChunkId) override;
  Result<void> clear_home(ChunkId) override;
  std::span<std::byte> home_memory(ChunkId) const override;

  // ---- ExecutorCounters
  std::array<Bytes, link_count> moved() const override { return common_->moved.by_link(); }
  std::array<i64, link_count> moved_by_data() const override { return common_->moved.by_data(); }
  Bytes moved_between_devices() const override { return common_->moved.between_devices(); }
  NetBytes moved_over_network() const override { return common_->moved.over_network(); }
  u64 io_retries() const override { return disk_lanes_->retries(); }
  Bytes high_water(Tier tier) const override { return common_->book.high_water(tier); }

  // ---- StepResults
  StepResult result(u64 step) const override { return lanes_->result(step); }
  RoutingResult routing(u64 step) const override { return lanes_->routing(step); }
  bool assumed_right(u64 step) const override;
  void replay(u64 step, const StepResult& result) override { common_->replayed.add(step, result); }
  void vote(u64 bits) override { common_->vote.store(bits, std::memory_order_relaxed); }
  u64 votes(u64 step) const override { return lanes_->votes(step); }
  void set_loss_scale(const LossScale& scale) override { lanes_->set_loss_scale(scale); }
  Result<EvalResult> take_eval() override { return common_->evaluation.take(common_->request.transport); }
  void request_logits(const LogitsRequest& request) override { common_->logits = request; }
  void request_outputs(TargetOutputs* outputs) override { common_->outputs = outputs; }

  // ---- TimedAtRest
  Result<void> run_at_rest(const Segment&, OpId, u32 times) override;
  Result<void> transfer_raw(std::span<const RawTransfer> transfers) override {
    return disk_lanes_->transfer_raw(transfers);
  }

  // ---- CommittedState
  Result<void> take_over() override;
  Result<void> roll_back(u64 step) override;
  Result<bool> commit_at_rest(u64 step) override;
  StateCommit last_commit() const override { return disk_lanes_->commits()->last_commit(); }
  CommitHold hold_last_commit() override { return disk_lanes_->commits()->hold_last_commit(); }

  // RETURNS: true if submitted work has not come back; the destructor would wait for it.
  bool busy() const { return common_->book.busy() || disk_lanes_->busy_at_rest(); }
  const Disk* disk() const { return disk_lanes_->disk(); }  // null: no disk
  NetLanes* net() { return net_lanes_.get(); }              // null: one node

 private:
  TrainingExecutor(std::unique_ptr<ExecutorCommon> common, std::unique_ptr<DeviceLanes> lanes);
  Result<void> start();
  void end_nodes(std::span<const Completion>);
  const Frame& home_of(ChunkId id) const { return common_->plan.homes[index(id)]; }

  const std::unique_ptr<ExecutorCommon> common_;
  const std::unique_ptr<DeviceLanes> lanes_;
  HostWork host_work_;
  std::unique_ptr<DiskLanes> disk_lanes_;
  std::unique_ptr<RowLookup> lookup_;    // null: no table is looked up
  std::unique_ptr<NetLanes> net_lanes_;  // null: one node
  std::unique_ptr<LaneThread> host_;
};

}  // namespace tidepool
