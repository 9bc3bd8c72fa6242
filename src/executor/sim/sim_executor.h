// An executor in virtual time: no data, only rates, and tags that report any wrong read.
//
// Ordered lanes run one op at a time. Both disk lanes share one disk that serves requests one after the
// other. Same plan, rates and seed give the same times; ties fall by sequence.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "engine/executor.h"
#include "engine/schedule.h"
#include "executor/sim/tagged_memory.h"
#include "tidepool/model_graph.h"

namespace tidepool {

struct SimRates {
  double h2d_bytes_per_s = 10e9;
  double d2h_bytes_per_s = 10e9;
  double disk_read_bytes_per_s = 2e9;
  double disk_write_bytes_per_s = 1e9;
  double flops_per_s = 100e9;
  double memory_bytes_per_s = 20e9;  // gradient and norm: bytes of their operands
  double adam_bytes_per_s = 20e9;    // bytes of the update's operands, written ones twice
  Nanos op_overhead{2'000};
};

struct SimOptions {
  SimRates rates;
  u32 lane_depth = 8;
  u32 disk_depth = 32;
  u64 seed = 0;
  double jitter = 0.0;  // each duration is longer by up to this fraction, by seed and sequence
};

class SimExecutor final : public Executor {
 public:
  // The plan and the graph must outlive it.
  static std::unique_ptr<SimExecutor> create(const Plan&, const ModelGraph&, const SimOptions&);

  u32 slots_free(LaneId) const override;
  void submit(const Issue&, std::span<const u64> in_flight) override;
  std::span<const Completion> wait() override;
  Nanos now() const override { return now_; }

  SimExecutor(const SimExecutor&) = delete;
  SimExecutor& operator=(const SimExecutor&) = delete;

 private:
  struct Queued {
    Issue issue;
    std::vector<u64> in_flight;
  };
  struct Lane {
    std::deque<Queued> queue;  // not yet started
    u32 occupied = 0;          // queued and running
    bool running = false;
  };
  struct Event {
    Nanos finished{}, started{};
    Issue issue;
    bool operator>(const Event& o) const {
      return finished != o.finished ? finished > o.finished : issue.sequence > o.issue.sequence;
    }
  };

  SimExecutor(const Plan&, const ModelGraph&, const SimOptions&);
  void start_ready();
  bool can_start(const Lane&) const;
  void start(const Issue&, Nanos at);
  bool completed(u64 sequence) const;
  Nanos duration(const Issue&) const;
  double work_seconds(const Segment&, const Op&) const;
  double compute_flops(const Segment&, const Op&) const;
  void report(const Issue&, const std::string& wrong);

  const Plan& plan_;
  const ModelGraph& graph_;
  const SimOptions options_;
  const Schedule schedule_;
  TaggedMemory memory_;
  std::vector<Lane> lanes_;
  std::vector<Event> events_;  // heap, earliest first
  std::vector<u64> done_;      // ring by sequence: sequence + 1 once completed
  Nanos now_{};
  Nanos disk_free_at_{};
  Error error_;
  bool failed_ = false;
  Completion completion_;
};

}  // namespace tidepool
