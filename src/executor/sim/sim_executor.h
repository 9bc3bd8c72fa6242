// SimExecutor is an executor in virtual time: no data, only costs, and tags that reveal any wrong read.
//
// Each lane works on its ops one after the other (a swarm's disk lanes on several at once). Ops that run at
// the same time share the machine's resources. The same plan, machine and seed give the same times.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/executor.h"
#include "engine/schedule.h"
#include "executor/sim/cost.h"
#include "executor/sim/tagged_memory.h"

namespace tidepool {

struct SimOptions {
  Machine machine;
  OpSeconds seconds;
  u32 lane_depth = 8;
  u32 disk_depth = 32;
  u64 seed = 0;
  double jitter = 0.0;  // each op takes longer by up to this fraction, derived from seed and sequence
  // Swarm test: each lane is faster or slower by up to this factor, derived from the seed, and disk requests
  // overtake each other. No machine has such timings; they search for hazards. 1: off.
  double swarm = 1.0;
  double disk_faults = 0.0;  // probability that a read or write fails permanently
  bool check_tags = true;    // report wrong reads; without tags it takes half as long, for times only
};

class SimExecutor final : public Executor {
 public:
  // REQUIRES: the plan and the graph outlive this object.
  static std::unique_ptr<SimExecutor> create(const Plan&, const ModelGraph&, const SimOptions&);

  u32 slots_free(LaneId) const override;
  void submit(const Issue&, std::span<const u64> in_flight) override;
  std::span<const Completion> wait() override;
  Nanos now() const override { return virtual_now(); }

  // Bytes of the movements that have completed, as a TrainingExecutor counts its own.
  std::array<Bytes, link_count> moved() const { return moved_; }
  Bytes moved_between_devices() const { return moved_between_devices_; }
  NetBytes moved_over_network() const { return over_network_; }

  SimExecutor(const SimExecutor&) = delete;
  SimExecutor& operator=(const SimExecutor&) = delete;

 private:
  struct Queued {
    Issue issue;
    std::vector<u64> in_flight;
  };
  struct Lane {
    std::deque<Queued> queue;  // not yet started
    u32 running = 0;
    u32 width = 1;          // ops that the lane works on at a time
    double slowness = 1.0;  // slowdown of a swarm's lane
    u32 occupied() const { return static_cast<u32>(queue.size()) + running; }
  };
  SimExecutor(const Plan&, const ModelGraph&, const SimOptions&);
  struct Running {
    Issue issue;
    Nanos started{};
  };

  void start_ready();
  bool can_start(const Queued&) const;
  bool start_next(Lane&);
  bool start_receive();
  void start(Lane&, const Issue&);
  void find_counterparts();
  void mix_disk();
  bool completed(u64 sequence) const;
  Nanos virtual_now() const;
  void count_moved(const Issue&);
  void report(const Issue&, const std::string& wrong);
  bool fails(const Issue&) const;

  const Plan& plan_;
  const SimOptions options_;
  const Schedule schedule_;
  const CostModel cost_;
  Fluid fluid_;
  std::optional<TaggedMemory> memory_;  // if options_.check_tags
  // By segment and op. The other nodes are not simulated: they are taken to be as far as this one, so what is
  // received is sent when this node does the like. none: the op is not a receive.
  std::array<std::vector<u32>, segment_count> counterparts_;
  std::vector<Lane> lanes_;
  std::unordered_map<u64, Running> running_;  // by sequence
  std::array<u32, 2> disk_running_{};         // reads, writes
  std::vector<u64> done_;                     // ring by sequence: sequence + 1 once completed
  std::array<Bytes, link_count> moved_{};
  Bytes moved_between_devices_{};
  NetBytes over_network_;
  Error error_;
  bool failed_ = false;
  Completion completion_;
};

}  // namespace tidepool
