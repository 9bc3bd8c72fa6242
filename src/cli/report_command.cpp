#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <optional>
#include <span>
#include <system_error>
#include <vector>

#include "base/read_file.h"
#include "base/text/path_text.h"
#include "checkpoint/trainer_state.h"
#include "cli/command.h"
#include "huggingface/directory/hf_config.h"
#include "report/error_text.h"
#include "report/page/html_report.h"
#include "report/print_text.h"
#include "report/terminal.h"
#include "run/directory/run_directory.h"
#include "run/unfinished_run.h"

namespace tidepool {
namespace {

constexpr std::array options_of_report = {
    Option{"html", "FILE", "path of the page (in the run directory)"},
};

namespace fs = std::filesystem;

// RETURNS: the last part of a path, "runs/b" -> "b". It tells the page of two runs from the page of one.
std::string last_part(const std::string& path) { return fs::path(path).filename().string(); }

std::string page_path(const std::string& html, const std::vector<RunFiles>& runs) {
  if (!html.empty()) return html;
  if (runs.size() == 1) return runs[0].name + "/report.html";
  return fmt::format("{}/compare-{}.html", runs[0].name, last_part(runs[1].name));
}

// Checks that `path` may be written. An older page is replaced; any other file, such as a run's own, is not.
Result<void> check_page(const std::string& path) {
  constexpr std::string_view begin = "<!doctype html>";
  std::error_code unused;
  if (!fs::is_regular_file(path, unused)) return {};
  TRY_ASSIGN(const InputFile file, open_input(path, ErrorKind::io));
  std::string found(std::min<u64>(file.bytes, begin.size()), '\0');
  TRY(read_exactly(file.fd, path, 0, std::as_writable_bytes(std::span(found)), ErrorKind::io));
  if (found.empty() || found == begin) return {};
  return Error{ErrorKind::usage,
               fmt::format("--html {}: exists, and is not a page; name another file", path)};
}

Error is_checkpoint(const std::string& dir) {
  if (const std::string run = run_of_checkpoint(dir); !run.empty())
    return {ErrorKind::usage, fmt::format("{} is a checkpoint of the run {}: name the run", dir, run)};
  return {ErrorKind::usage,
          fmt::format("{} is a checkpoint, not a run: name the output.dir of its run", dir)};
}

// Refuses checkpoints and model directories, which people name instead of a run. read_run() refuses other
// directories.
Result<void> check_is_no_model(const std::string& dir) {
  const auto has = [&](const char* file) { return is_named((fs::path(dir) / file).string()); };
  if (has("report.json")) return {};
  if (has(trainer_state_file)) return is_checkpoint(dir);
  if (has(model_config_file) || has(adapter_config_file))
    return Error{ErrorKind::usage,
                 fmt::format("{} is a model directory, not a run: name the output.dir of a run", dir)};
  return {};
}

// Prints the report and writes the page.
// `run_dirs`: one run, or two to show side by side.
// `html`: path of the page; empty: in the first run directory.
Result<void> report(const std::vector<std::string>& run_dirs, const std::string& html) {
  std::vector<RunFiles> runs;
  for (const std::string& dir : run_dirs) {
    if (dir.empty())
      return Error{ErrorKind::usage,
                   "RUN_DIR is empty, perhaps from a variable that is not set: name a run directory"};
    TRY(check_is_no_model(dir));
    TRY_ASSIGN(std::optional<RunFiles> unfinished, read_if_unfinished(dir));
    if (unfinished && run_dirs.size() > 1)
      return Error{ErrorKind::usage, fmt::format("{} {}: runs can be compared only after both have ended",
                                                 dir, unfinished->unfinished)};
    if (unfinished) {
      runs.push_back(*std::move(unfinished));
      continue;
    }
    TRY_ASSIGN(RunFiles run, read_run(dir));
    runs.push_back(std::move(run));
  }
  const std::string path = page_path(html, runs);
  TRY(check_page(path));
  const Screen screen = detect_screen(1);
  if (!runs[0].unfinished.empty()) {
    print_text("{}\n{}", runs[0].name, render_unfinished(runs[0].report, runs[0].unfinished, screen));
  } else if (runs.size() == 1) {
    print_text("{}\n{}", runs[0].name, render_report(runs[0].report, screen));
  } else {
    print_text("{}",
               render_comparison({runs[0].name, runs[0].report}, {runs[1].name, runs[1].report}, screen));
  }
  TRY(write_html(path, runs, FileUse::page));
  print_text("\n The page: {}\n", path);
  for (const RunFiles& run : runs)
    for (const std::string& warning : run.warnings)
      print_text(stderr, "{}\n", error_text(warning, detect_screen(STDERR_FILENO)));
  return {};
}

Result<void> run_report(const Arguments& arguments) {
  const auto& words = arguments.positional();
  if (words.size() > 2) return usage_error("report compares at most two run directories");
  if (arguments.has("html") && arguments.text("html").empty()) return usage_error("--html: name a file");
  return report(words, arguments.text("html"));
}

}  // namespace

constinit const Command report_command = {
    .name = "report",
    .words = "RUN_DIR [RUN_DIR]",
    .summary = "print the report of a run, or compare two runs",
    .options = options_of_report,
    .least_words = 1,
    .run = run_report,
};

}  // namespace tidepool
