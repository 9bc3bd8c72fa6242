// MetricsLog writes metrics.jsonl: one object per line, with Hugging Face's log names and null for numbers
// that are not finite. read_step_metrics() reads it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "base/write_file.h"

namespace tidepool {

struct StepMetrics {
  u64 step = 0;
  double epoch = 0;
  double loss = 0;
  double grad_norm = 0;
  double learning_rate = 0;
  double train_tokens_per_second = 0;
  double step_seconds = 0;
  std::optional<double> loss_scale;  // fp16 only: the loss scale of this step
};

struct EvalMetrics {
  u64 step = 0;
  double epoch = 0;
  double eval_loss = 0;
  double eval_seconds = 0;
};

struct TrainMetrics {  // last line of a run
  u64 step = 0;
  double train_runtime = 0;  // seconds
  double train_tokens_per_second = 0;
  double train_loss = 0;  // mean over all steps
};

std::string to_json_line(const StepMetrics&);
std::string to_json_line(const EvalMetrics&);
std::string to_json_line(const TrainMetrics&);

// StepLog holds the steps and evaluations of metrics.jsonl, in order. Lines that cannot be read are left out
// and counted; so is half a line at the end, as a kill leaves it.
struct StepLog {
  std::vector<StepMetrics> steps;
  std::vector<EvalMetrics> evaluations;
  u64 lines = 0;
  u64 unreadable = 0;
  std::string first_fault;  // "line 7: step is missing or not as expected"; empty: no fault
};

// Reads metrics.jsonl.
// RETURNS: an empty log if the file is missing. ErrorKind::bad_input if not a single line can be read, or if
// `path` is not a readable file.
Result<StepLog> read_step_metrics(const std::string& path);

// MetricsLog appends lines to metrics.jsonl.
//
// Every line reaches the file before append() returns, so a kill loses no line. After an error no part of the
// line stays in the file, and the next line may be written.
//
// THREADS: one at a time.
class MetricsLog {
 public:
  // Keeps the lines of steps up to `keep_through_step` and drops the rest: steps after the checkpoint that
  // the run resumes from will be written again. A torn last line is dropped, too.
  static Result<std::unique_ptr<MetricsLog>> open(const std::string& path, u64 keep_through_step);

  Result<void> append(const StepMetrics& m) { return append_line(to_json_line(m)); }
  Result<void> append(const EvalMetrics& m) { return append_line(to_json_line(m)); }
  Result<void> append(const TrainMetrics& m) { return append_line(to_json_line(m)); }

  Result<void> sync() { return log_.sync(); }

 private:
  explicit MetricsLog(AppendLog log) : log_(std::move(log)) {}
  Result<void> append_line(const std::string& line) { return log_.append(line + "\n"); }

  AppendLog log_;
};

}  // namespace tidepool
