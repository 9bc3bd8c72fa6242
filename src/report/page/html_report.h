// report.html: one page that opens offline, drawn from what a run directory holds.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "report/metrics_log.h"
#include "report/run_report.h"

namespace tidepool {

// A run directory as far as the page needs it.
struct RunFiles {
  std::string name;  // the directory, for people
  RunReport report;
  std::vector<StepMetrics> metrics;
  std::string step_json;              // checked; empty: the run kept no step.json
  std::vector<u64> checkpoints;       // steps of those that the directory holds
  std::string unfinished;             // how far a run is that has no report of its end; empty: it has
  std::vector<std::string> warnings;  // one line each: what is missing or cannot be read, and what it costs
};

// report.json must be there; metrics.jsonl and step.json may be missing. What is broken as a whole is
// ErrorKind::bad_input, naming the file; single lines of metrics.jsonl are left out with a warning.
// ErrorKind::usage: no directory of a run that has ended.
Result<RunFiles> read_run(const std::string& run_dir);
// The same of a run that still trains or was killed: `report` is what its files tell of it, `unfinished` says
// how far it is.
Result<RunFiles> read_unfinished_run(const std::string& run_dir, RunReport report, std::string unfinished);

// One run, or two side by side. Curves of more than some thousand points are thinned.
std::string render_html(std::span<const RunFiles>);

// `path`, replaced in one step.
Result<void> write_html(const std::string& path, std::span<const RunFiles>);

}  // namespace tidepool
