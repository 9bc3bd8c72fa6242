// The logs of a run that goes on: metrics.jsonl and TensorBoard's events, the same numbers in both. A line
// that cannot be written is lost and counted; it never ends a training.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "report/event_file.h"
#include "report/metrics_log.h"

namespace tidepool {

// One thread. Tags are those that Hugging Face's trainer gives: `loss` is train/loss, `eval_loss` eval/loss.
class RunLog {
 public:
  // `steps_done`: before this process; what a run wrote of later steps is dropped.
  static Result<std::unique_ptr<RunLog>> open(const std::string& run_dir, u64 steps_done);

  void append(const StepMetrics&);
  void append(const EvalMetrics&);
  void append(const TrainMetrics&);
  // Makes durable what was appended.
  void sync();

  // Warnings that nobody has taken yet: one line for each log whose first line was lost.
  std::vector<std::string> take_warnings() { return std::exchange(warnings_, {}); }
  // At the end: one line for each log that lacks some.
  std::vector<std::string> what_is_missing() const;

 private:
  struct Kept {  // how well a log is kept
    const char* name;
    u64 lost = 0;
    std::string first_fault = {};
  };

  RunLog() = default;
  void append(u64 step, const Result<void>& metrics, const Result<void>& events);
  void note(Kept&, u64 step, const Result<void>& written);

  std::unique_ptr<MetricsLog> metrics_;
  std::unique_ptr<EventFile> events_;
  Kept metrics_kept_{"metrics.jsonl"}, events_kept_{"the TensorBoard events"};
  std::vector<std::string> warnings_;
};

}  // namespace tidepool
