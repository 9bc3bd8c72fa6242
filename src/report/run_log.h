// RunLog writes the logs of a running training: metrics.jsonl and TensorBoard events, with the same numbers.
// A line that cannot be written is lost and counted, but never ends the training.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "report/event_file.h"
#include "report/metrics_log.h"

namespace tidepool {

// Tags are those of Hugging Face's trainer: `loss` is train/loss, `eval_loss` is eval/loss.
// THREADS: one.
class RunLog {
 public:
  // `steps_done`: steps before this process. Log entries of later steps are dropped.
  static Result<std::unique_ptr<RunLog>> open(const std::string& run_dir, u64 steps_done);

  void append(const StepMetrics&);
  void append(const EvalMetrics&);
  void append(const TrainMetrics&);
  // Makes appended lines durable.
  void sync();

  // New warnings: one line for each log that has just lost its first line.
  std::vector<std::string> take_warnings() { return std::exchange(warnings_, {}); }
  // At the end: one line for each log with lost lines.
  std::vector<std::string> what_is_missing() const;

 private:
  struct Kept {  // state of one log
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
