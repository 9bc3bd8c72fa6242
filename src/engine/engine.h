// Engine is one loop that replays a plan's segments on an executor.
//
// Each lane has a cursor and issues in plan order; there is no ready queue, so timing cannot change numbers.
// Op ids are topological, so the lowest op not yet issued can always be issued once the ops in flight have
// completed: there is no deadlock. Two runs of segments are alive at most: the older one completes while the
// younger one starts, along the edges of Plan::links.
//
// While it runs it allocates nothing, and has no clock, thread or randomness of its own.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/executor.h"
#include "engine/schedule.h"

namespace tidepool {

struct SegmentRun {
  SegmentKind kind{};
  u64 step = 0;  // the step whose forward the segment runs, from 1
  // False: ops that only write down the state (Op::persists) are skipped. They count as done once all that
  // they follow is done.
  bool persists = true;
};

// NextSegment chooses the next segment. This is the trainer's only say in the loop.
class NextSegment {
 public:
  virtual ~NextSegment() = default;
  // Called once a lane that feeds the device has nothing left to issue, which is well before the current
  // segment ends: the next segment's reads and copies then run ahead.
  // RETURNS: the next segment; none: the engine finishes and returns at rest.
  virtual std::optional<SegmentRun> next() = 0;
  // Asked after completions. True: the engine issues no more, and returns at rest once the ops in flight have
  // completed. What the abandoned segments leave is undefined.
  virtual bool abandons() { return false; }
};

// EngineObserver is told about the events of a run.
// THREADS: called on the thread that called run().
// REQUIRES: does not call the engine.
class EngineObserver {
 public:
  virtual ~EngineObserver() = default;
  virtual void segment_started(const SegmentRun&, u64 /*first_sequence*/) {}
  virtual void completed(const Issue&, const Completion&) {}  // ops before the first error only
  virtual void segment_finished(const SegmentRun&) {}
  virtual void at_rest() {}  // nothing is in flight: before the first op and after the last
};

struct EngineOptions {
  // Timeout of the watchdog: without a completion for this long, the run stops and reports every lane's
  // state. Many times the longest op.
  Nanos watchdog{300'000'000'000};
};

class Engine {
 public:
  // REQUIRES: the plan and the executor outlive the engine.
  static std::unique_ptr<Engine> create(const Plan&, Executor&, const EngineOptions&);

  // Runs segments until `next` returns none and everything has completed, or abandons them. After an op's
  // error it issues no more, waits for the ops in flight, and returns the error; the executor must not be
  // used again.
  Result<void> run(NextSegment& next, EngineObserver& observer);

  // Cursor of every lane and the op that it waits for, one line each. For people.
  std::string lanes_text() const;

  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

 private:
  enum class OpState : u8 { waiting, issued, done };
  // Run is a segment that is being run.
  struct Run {
    SegmentRun what;
    const Segment* segment = nullptr;
    const SegmentLanes* lanes = nullptr;
    const LinkIndex* link = nullptr;  // edges from the older run while that run is alive
    bool held = false;                // starts when the older run has completed
    u64 first_sequence = 0;
    u32 completed = 0;
    std::vector<OpState> state;  // [ops_max]
    std::vector<u32> cursor;     // [lanes] next place in each lane

    u32 ops() const { return static_cast<u32>(segment->ops.size()); }
  };
  // In-flight ops of devices that an op must follow. Lanes complete in order, so the last op of each lane is
  // enough.
  struct InFlight {
    std::array<u64, in_flight_max> sequences{};
    std::array<LaneId, in_flight_max> lanes{};
    u32 count = 0;
    void add(LaneId lane, u64 sequence);
  };
  struct Head {
    Run* run = nullptr;
    OpId op{};
  };

  Engine(const Plan&, Executor&, const EngineOptions&);
  void admit(NextSegment&, EngineObserver&);
  bool wants_next() const;
  void start(const SegmentRun&, EngineObserver&);
  void issue_ready();
  bool issue_head(u32 lane);
  bool skip(Run&, OpId, u32 lane, const InFlight&);
  bool is_done_before(const Run&, u32 lane) const;
  std::optional<Head> head(u32 lane);
  bool ready(const Run&, OpId, InFlight&) const;
  std::optional<OpId> blocker(const Run& of, std::span<const OpId> deps, const Op&, InFlight&) const;
  Result<void> wait_and_complete(EngineObserver&);
  void complete(const Completion&, EngineObserver&);
  void retire_finished(EngineObserver&);
  Error stuck(const char* why) const;
  std::string lane_text(u32 lane) const;
  std::string waits_text(const Run&, OpId) const;

  Run& older() { return runs_[older_]; }
  Run& younger() { return runs_[older_ ^ 1]; }
  const Run& older() const { return runs_[older_]; }
  const Run& younger() const { return runs_[older_ ^ 1]; }

  Executor& executor_;
  const EngineOptions options_;
  const Schedule schedule_;
  std::array<Run, 2> runs_;
  u32 older_ = 0;
  u32 live_ = 0;        // runs alive
  bool ended_ = false;  // `next` returned none
  bool abandoned_ = false;
  u64 next_sequence_ = 0;
  u64 in_flight_ = 0;
  bool skipped_ = false;  // ops were skipped since the last completion
  Nanos waited_{};        // since the last completion; counts only time in which the process ran
  std::optional<Error> error_;
};

}  // namespace tidepool
