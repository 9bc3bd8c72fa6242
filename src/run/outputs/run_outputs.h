// RunOutputs writes everything that a run reports: lines and a progress bar on the terminal, run.log,
// metrics.jsonl and other logs, report.json and report.html.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "config/config.h"
#include "log/log.h"
#include "report/run_report.h"
#include "report/sinks/metric_sinks.h"
#include "report/terminal.h"
#include "run/outputs/live_meter.h"

namespace tidepool {

class RunOutputs {
 public:
  // `quiet`: writes files only.
  // REQUIRES: the config outlives this object.
  RunOutputs(const Config&, bool quiet);
  ~RunOutputs() { end_view(); }

  void say(const std::string& line) { say(LogLevel::info, line); }
  void warn(const std::string& line) { say(LogLevel::warning, "WARNING: " + line); }
  void show(const PlanSummary&);

  // Call before the first step. Appends from `first_step` on, and drops what was logged of later steps.
  // `total_epochs`: the epochs that all steps of the run take.
  // REQUIRES: the plan outlives this object.
  Result<void> open(const Plan&, u64 first_step, double total_epochs);
  // The run trains on with another plan, which outlives this object as open()'s.
  void change_plan(const Plan&);
  // The engine's events, for the live view and for step().
  void segment_started(const SegmentRun&);
  void completed(const Issue&, const Completion&);
  void segment_finished();
  void at_rest();
  // Logs every output.logging_steps steps. If a log cannot take a line, warns once, and again in finish().
  // If steps are committed, a step waits until the segment before its own has ended, and with it the commit
  // of two steps before, if that step is committed. An error drops the waiting step.
  void step(const MetricLine&);
  bool logs(u64 step) const;  // true if step() logs this step
  void evaluation(const MetricLine&);
  // Makes the logs survive a power cut, or warns that they may not.
  void sync();
  // Writes report.json, and warns of lines that the logs lack.
  Result<void> finish(const RunReport&);
  // Updates report.rss_peak after the reports are written: writing takes memory too, on a small run more than
  // training. Writing them a second time takes no more than the first.
  Result<void> tell_process_size(RunReport&);
  // Writes report.html from the files in the run directory, as `tidepool report` does. A failure is only
  // printed: it must not undo a training.
  void page();
  // Prints the final report on the terminal.
  void show(const RunReport&);

 private:
  void say(LogLevel, const std::string& line);
  void end_view();
  void tell(const MetricLine&);
  void print(const std::string& text);
  void tell_of_log();
  // Says once on stderr that standard output fails; the exit code says it again. Writers say so themselves.
  void watch_output();
  std::string words_of_lost_output() const;

  const Config& config_;
  const bool quiet_;
  Screen screen_;
  bool output_lost_ = false;
  std::unique_ptr<MetricSinks> log_;
  std::unique_ptr<Progress> progress_;
  std::unique_ptr<LiveMeter> live_;  // on a terminal only
  bool commits_ = false;
  u32 open_ = 0;                 // segments in progress
  u64 newest_ = 0, oldest_ = 0;  // their steps
  std::optional<MetricLine> waiting_;
};

}  // namespace tidepool
