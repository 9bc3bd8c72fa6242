// Writes report.html: one page that opens offline, made from the files of a run directory.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "report/metrics_log.h"
#include "report/run_report.h"

namespace tidepool {

// RunFiles holds the content of a run directory that the page needs.
struct RunFiles {
  std::string name;  // the directory, as shown to people
  RunReport report;
  std::vector<StepMetrics> metrics;
  std::string step_json;              // checked; empty: the run has no step.json
  std::vector<u64> checkpoints;       // steps of the checkpoints in the directory
  std::string unfinished;             // how far a run without a final report is; empty: it has a final report
  std::vector<std::string> warnings;  // one line each: what is missing or unreadable, and what the page lacks
};

// Reads the files of a run that has ended.
// REQUIRES: report.json exists; metrics.jsonl and step.json may be missing.
// RETURNS: ErrorKind::bad_input, with the file's name, if a whole file is broken; broken single lines of
// metrics.jsonl are left out with a warning. ErrorKind::usage if `run_dir` is not the directory of a run that
// has ended.
Result<RunFiles> read_run(const std::string& run_dir);
// Reads the files of a run that still trains or was killed. `report` is made from its files by the caller;
// `unfinished` says how far the run is.
Result<RunFiles> read_unfinished_run(const std::string& run_dir, RunReport report, std::string unfinished);

// Renders one run, or two side by side. Curves with more than a few thousand points are thinned.
std::string render_html(std::span<const RunFiles>);

// Replaces `path` atomically with the page.
Result<void> write_html(const std::string& path, std::span<const RunFiles>);

}  // namespace tidepool
