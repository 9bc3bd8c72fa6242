// metrics.jsonl: one object per line, with Hugging Face's log names, and null for numbers that are not
// finite.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "report/metrics.h"

namespace tidepool {

std::string to_json_line(const MetricLine&);

// Steps and evaluations of metrics.jsonl, in order. Unreadable lines (such as half a line at the end, after a
// kill) are skipped and counted.
struct StepLog {
  std::vector<MetricLine> steps, evaluations;
  u64 lines = 0;
  u64 unreadable = 0;
  std::string first_fault;  // "line 7: step is missing or invalid"; empty: no fault
};

// Reads metrics.jsonl. A missing file gives an empty log.
// Error: bad_input if no line is readable, or it is not a regular file.
Result<StepLog> read_metrics(const std::string& path);

}  // namespace tidepool
