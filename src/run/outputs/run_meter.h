// RunMeter measures a training: steps, bytes per link, and where the time went.
#pragma once

#include <vector>

#include "engine/profile.h"
#include "engine/trace.h"
#include "executor/shared/executor_counters.h"
#include "report/run_report.h"
#include "run/outputs/phase_clock.h"

namespace tidepool {

class RunMeter {
 public:
  RunMeter(const Plan&, const ExecutorCounters&, u64 steps_expected, u64 trace_events);

  // Call around everything that the engine runs for training, except evaluation.
  void begin_training();
  // `abandoned`: what moved in segments that did not finish is no part of any step.
  void end_training(bool abandoned = false);

  void segment_finished(const SegmentRun& run) {
    ++runs_[static_cast<u32>(run.kind)];
    committed_runs_[static_cast<u32>(run.kind)] += run.persists;
  }
  // Call when a step's loss is known. RETURNS: the step's seconds.
  double step_done();
  // Records the same step's numbers for the report.
  void record(double grad_norm, double learning_rate);
  // Forgets steps after the first `steps`: the run has gone back behind them, and ends there.
  void keep(u64 steps);

  double train_seconds() const { return train_seconds_; }
  double train_seconds_now() const { return train_seconds_ + (last_step_ - began_); }  // up to the last step
  u64 steps() const { return step_seconds_.size(); }

  TimeProfile& profile() { return profile_; }
  PhaseProfile so_far() const { return profile_.total(); }
  PhaseClock& phases() { return phases_; }
  const PhaseClock& phases() const { return phases_; }
  TraceRecorder& trace() { return trace_; }
  void fill(RunReport&) const;

 private:
  using Runs = std::array<u64, segment_count>;
  std::array<Bytes, link_count> planned(const Runs& since, const Runs& since_committed) const;
  Bytes planned_between_devices(const Runs& since) const;
  void fill_network(std::array<LinkUse, 2>&) const;

  const Plan& plan_;
  const ExecutorCounters& counters_;
  TimeProfile profile_;
  PhaseClock phases_;
  TraceRecorder trace_;
  Runs runs_{}, committed_runs_{};  // all, and those whose step was committed
  Runs runs_before_{}, committed_runs_before_{};
  std::array<Bytes, link_count> moved_{}, moved_before_{};
  std::array<i64, link_count> by_data_{}, by_data_before_{};  // ExecutorCounters::moved_by_data()
  Bytes collected_{}, collected_before_{};                    // between devices
  NetBytes passed_, passed_before_;                           // between nodes
  std::vector<double> step_seconds_, grad_norms_, learning_rates_;
  double train_seconds_ = 0, began_ = 0, last_step_ = 0;
};

}  // namespace tidepool
