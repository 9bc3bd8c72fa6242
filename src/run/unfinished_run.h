// A run that has no report of its end: it trains now, or it was killed.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "report/page/html_report.h"

namespace tidepool {

// Reads config.yaml and metrics.jsonl of such a run. Nothing: report.json is of its end, or there is no run.
// ErrorKind::usage: it trains and has not done a step yet.
Result<std::optional<RunFiles>> read_if_unfinished(const std::string& run_dir);

}  // namespace tidepool
