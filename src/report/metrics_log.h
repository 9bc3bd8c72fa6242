// MetricsLog writes metrics.jsonl: one object per line, with Hugging Face's log names, and null for numbers
// that are not finite.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "base/write_file.h"
#include "report/expert_use.h"

namespace tidepool {

struct StepMetrics {
  u64 step = 0;
  double epoch = 0;
  double loss = 0;
  double grad_norm = 0;
  double learning_rate = 0;
  double train_tokens_per_second = 0;
  double step_seconds = 0;
  std::optional<double> loss_scale;           // fp16 only: scale of this step
  std::optional<RouterMetrics> router;        // models with experts only
  std::optional<ExpertTokens> expert_tokens;  // not in every line, for its size
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

// Steps and evaluations of metrics.jsonl, in order. Unreadable lines (such as half a line at the end, after a
// kill) are skipped and counted.
struct StepLog {
  std::vector<StepMetrics> steps;
  std::vector<EvalMetrics> evaluations;
  u64 lines = 0;
  u64 unreadable = 0;
  std::string first_fault;  // "line 7: step is missing or invalid"; empty: no fault
};

// Reads metrics.jsonl. A missing file gives an empty log.
// Error: bad_input if no line is readable, or it is not a regular file.
Result<StepLog> read_step_metrics(const std::string& path);

// Every line reaches the file before append() returns, so a kill loses none. After an error nothing of the
// line stays, and the next line can be written.
// THREADS: one at a time.
class MetricsLog {
 public:
  // Keeps the lines of steps up to `keep_through_step` and drops the rest: the resumed run will write the
  // later steps again. An incomplete last line is dropped too.
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
