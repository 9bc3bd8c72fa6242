// What a run tells: lines and a progress bar on the terminal, metrics.jsonl, events, report.json,
// report.html.
#pragma once

#include <memory>
#include <string>

#include "config/config.h"
#include "report/run_log.h"
#include "report/run_report.h"
#include "report/terminal.h"
#include "run/outputs/live_meter.h"

namespace tidepool {

class RunOutputs {
 public:
  // `quiet`: files only. The config must outlive it.
  RunOutputs(const Config&, bool quiet);
  ~RunOutputs() { end_view(); }

  void say(const std::string& line);
  void warn(const std::string& line) { say("WARNING: " + line); }
  void show(const PlanSummary&);

  // Before the first step: goes on from `first_step`, what was logged of later steps is dropped. The plan
  // must outlive it. `total_epochs`: that all steps take.
  Result<void> open(const Plan&, u64 first_step, double total_epochs);
  // For the live view; nothing where there is none.
  void segment_started(const SegmentRun&);
  void completed(const Issue&, const Completion&);
  // Logged every output.logging_steps. A line that a log does not take is told once, and again by finish().
  void step(const StepMetrics&);
  void evaluation(const EvalMetrics&);
  // Makes the logs survive a power cut, or reports that they may not.
  void sync();
  // report.json, and what the logs lack.
  Result<void> finish(const RunReport&);
  // report.html, of what lies in the directory, as `tidepool report` makes it. A fault in it does not undo a
  // training: it is said and left at that.
  void page();
  // What the terminal gets at the end.
  void show(const RunReport&);

 private:
  void end_view();
  void print(const std::string& text);
  void tell_of_log();
  void watch_output();  // says once on stderr that standard output fails; the exit code says it again

  const Config& config_;
  const bool quiet_;
  Screen screen_;
  bool output_lost_ = false;
  std::unique_ptr<RunLog> log_;
  std::unique_ptr<Progress> progress_;
  std::unique_ptr<LiveMeter> live_;  // on a terminal only
};

}  // namespace tidepool
