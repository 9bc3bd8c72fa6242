#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <vector>

#include "cli/commands.h"
#include "report/error_text.h"
#include "report/html_report.h"
#include "report/terminal.h"

namespace tidepool {
namespace {

// "runs/b" -> "b": what tells the page of two runs from the page of one.
std::string last_part(const std::string& path) { return std::filesystem::path(path).filename().string(); }

std::string page_path(const ReportArguments& arguments, const std::vector<RunFiles>& runs) {
  if (!arguments.html.empty()) return arguments.html;
  if (runs.size() == 1) return runs[0].name + "/report.html";
  return fmt::format("{}/compare-{}.html", runs[0].name, last_part(runs[1].name));
}

}  // namespace

Result<void> report(const ReportArguments& arguments) {
  std::vector<RunFiles> runs;
  for (const std::string& dir : arguments.run_dirs) {
    if (dir.empty())
      return Error{ErrorKind::usage, "a run directory is the empty text, as from a variable that is not set"};
    TRY_ASSIGN(RunFiles run, read_run(dir));
    runs.push_back(std::move(run));
  }
  const Screen screen = detect_screen(1);
  if (runs.size() == 1) {
    fmt::print("{}\n{}", runs[0].name, render_report(runs[0].report, screen));
  } else {
    fmt::print("{}",
               render_comparison({runs[0].name, runs[0].report}, {runs[1].name, runs[1].report}, screen));
  }
  const std::string path = page_path(arguments, runs);
  TRY(write_html(path, runs));
  fmt::print("\n The page: {}\n", path);
  for (const RunFiles& run : runs)
    for (const std::string& warning : run.warnings)
      fmt::print(stderr, "{}\n", error_text(warning, detect_screen(STDERR_FILENO)));
  return {};
}

}  // namespace tidepool
