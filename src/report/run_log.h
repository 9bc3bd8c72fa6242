// RunLog writes the two logs of a run in progress: metrics.jsonl and TensorBoard's events, with the same
// numbers. A line that cannot be written is lost and counted. It never ends the training.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "report/event_file.h"
#include "report/metrics_log.h"

namespace tidepool {

// TensorBoard tags are those of Hugging Face's trainer: `loss` is train/loss, `eval_loss` is eval/loss.
// THREADS: one.
class RunLog {
 public:
  // `steps_done`: steps done before this process. Lines of later steps, from before a resume, are dropped.
  static Result<std::unique_ptr<RunLog>> open(const std::string& run_dir, u64 steps_done);

  void append(const StepMetrics&);
  void append(const EvalMetrics&);
  void append(const TrainMetrics&);
  // Makes the appended lines durable.
  void sync();

  // RETURNS: warnings since the last call: one line per log that lost its first line, or that sync() could
  // not make durable.
  std::vector<std::string> take_warnings() { return std::exchange(warnings_, {}); }
  // RETURNS: at the end of the run, one line per log that lacks lines.
  std::vector<std::string> what_is_missing() const;

 private:
  struct Kept {  // lost lines of one log
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
