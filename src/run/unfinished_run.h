// read_if_unfinished() reads a run without a final report: it is training now, or it was killed,
// perhaps after a resume, so that report.json describes an earlier process.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "report/page/html_report.h"

namespace tidepool {

// Reads config.yaml and metrics.jsonl of such a run.
// RETURNS: nullopt if report.json is final, or there is no run.
// ErrorKind::usage if it is training and has not logged a step yet.
Result<std::optional<RunFiles>> read_if_unfinished(const std::string& run_dir);

}  // namespace tidepool
