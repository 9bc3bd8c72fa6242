// What is written while a run goes on: metrics.jsonl and TensorBoard's events, the same numbers in both.
#pragma once

#include <memory>
#include <string>

#include "report/event_file.h"
#include "report/metrics_log.h"

namespace tidepool {

// One thread. Tags are those that Hugging Face's trainer gives: `loss` is train/loss, `eval_loss` eval/loss.
class RunLog {
 public:
  // `steps_done`: before this process; what a run wrote of later steps is dropped.
  static Result<std::unique_ptr<RunLog>> open(const std::string& run_dir, u64 steps_done);

  Result<void> append(const StepMetrics&);
  Result<void> append(const EvalMetrics&);
  Result<void> append(const TrainMetrics&);

 private:
  RunLog() = default;
  std::unique_ptr<MetricsLog> metrics_;
  std::unique_ptr<EventFile> events_;
};

}  // namespace tidepool
