#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <span>
#include <vector>

#include "cli/commands.h"
#include "report/error_text.h"
#include "report/html_report.h"
#include "report/terminal.h"
#include "tidepool/read_file.h"

namespace tidepool {
namespace {

// "runs/b" -> "b": what tells the page of two runs from the page of one.
std::string last_part(const std::string& path) { return std::filesystem::path(path).filename().string(); }

std::string page_path(const ReportArguments& arguments, const std::vector<RunFiles>& runs) {
  if (!arguments.html.empty()) return arguments.html;
  if (runs.size() == 1) return runs[0].name + "/report.html";
  return fmt::format("{}/compare-{}.html", runs[0].name, last_part(runs[1].name));
}

// A page is made anew as often as one likes; what else is there, such as the run's own files, stays.
Result<void> check_page(const std::string& path) {
  constexpr std::string_view begin = "<!doctype html>";
  std::error_code unused;
  if (!std::filesystem::is_regular_file(path, unused)) return {};
  TRY_ASSIGN(const InputFile file, open_input(path, ErrorKind::io));
  std::string found(std::min<u64>(file.bytes, begin.size()), '\0');
  TRY(read_exactly(file.fd, path, 0, std::as_writable_bytes(std::span(found)), ErrorKind::io));
  if (found.empty() || found == begin) return {};
  return Error{ErrorKind::usage, fmt::format("--html {}: is there, and no page; name another file", path)};
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
  const std::string path = page_path(arguments, runs);
  TRY(check_page(path));
  const Screen screen = detect_screen(1);
  if (runs.size() == 1) {
    fmt::print("{}\n{}", runs[0].name, render_report(runs[0].report, screen));
  } else {
    fmt::print("{}",
               render_comparison({runs[0].name, runs[0].report}, {runs[1].name, runs[1].report}, screen));
  }
  TRY(write_html(path, runs));
  fmt::print("\n The page: {}\n", path);
  for (const RunFiles& run : runs)
    for (const std::string& warning : run.warnings)
      fmt::print(stderr, "{}\n", error_text(warning, detect_screen(STDERR_FILENO)));
  return {};
}

}  // namespace tidepool
