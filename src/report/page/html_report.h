// Renders report.html: one page that opens offline, made from the files of a run directory.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/errno_text.h"
#include "base/result.h"
#include "report/run_report.h"
#include "report/sinks/jsonl.h"

namespace tidepool {

// The files of a run directory that the page needs.
struct RunFiles {
  std::string name;  // the directory's name, for people
  RunReport report;
  std::vector<MetricLine> metrics;
  std::string step_json;              // checked; empty: there is no step.json
  std::vector<u64> checkpoints;       // steps of the existing checkpoints
  std::string unfinished;             // state of a run without a final report; empty: it has one
  std::vector<std::string> warnings;  // one line each: what is missing or unreadable, and the consequence
};

// Reads a run directory. report.json must exist; metrics.jsonl and step.json may be missing. Unreadable lines
// of metrics.jsonl are skipped with a warning.
// Error: bad_input, naming a file that is unreadable as a whole; usage if it is not the directory of a
// finished run.
Result<RunFiles> read_run(const std::string& run_dir);
// The same for a run that is still training or was killed: `report` is made from its files, `unfinished`
// describes its state.
Result<RunFiles> read_unfinished_run(const std::string& run_dir, RunReport report, std::string unfinished);

// Renders one run, or two side by side. Curves of more than a few thousand points are thinned.
std::string render_html(std::span<const RunFiles>);

// Replaces the file at `path` atomically. `use` selects the advice of an error.
Result<void> write_html(const std::string& path, std::span<const RunFiles>, FileUse use);

}  // namespace tidepool
