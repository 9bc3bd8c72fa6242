#include "run/directory/run_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/open_file.h"
#include "base/text/checkpoint_name.h"
#include "base/text/path_text.h"
#include "base/text/seal.h"
#include "base/write_file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/manifest.h"
#include "report/text_file.h"
#include "run/commits/branch_file.h"
#include "run/directory/plan_change.h"

namespace tidepool {
namespace {

namespace fs = std::filesystem;

// Files that a run writes beside its checkpoints, most of them after its last step.
constexpr std::array written_files = {run_lock_name,   branch_file_name, "config.yaml", "plan.txt",
                                      "metrics.jsonl", "step.json",      "trace.json",  "report.json",
                                      "report.html",   run_log_name};

// RETURNS: the parent directory, as a relative path if `dir` is relative and that is possible.
fs::path directory_above(const std::string& dir) {
  std::error_code failed;
  const fs::path path = without_slashes(fs::path(dir).lexically_normal());
  if (fs::is_symlink(path, failed)) return fs::weakly_canonical(path, failed).parent_path();
  if (path.has_parent_path() && path.filename() != "..") return path.parent_path();
  return fs::path(without_slashes(fs::path(absolute_path(dir)).lexically_normal())).parent_path();
}

// Refuses what has a checkpoint's name and is none, such as a link to a disk that is not mounted: a
// checkpoint of that step could not be written, and a resume would step back behind it.
Result<void> check_checkpoint_names(const std::string& dir) {
  std::error_code unused;
  for (const fs::directory_entry& entry : fs::directory_iterator(dir, unused)) {
    const std::string path = entry.path().string();
    if (!parse_checkpoint_name(entry.path().filename().string())) continue;
    const bool link = entry.is_symlink(unused);
    if (entry.is_directory(unused) && (!link || fs::exists(entry.path() / manifest_file, unused))) continue;
    std::string is = irregular_file(path);
    if (const std::string_view dead = dead_link(path); !dead.empty()) is = dead;
    return Error{ErrorKind::io,
                 fmt::format("{} is {}, and no checkpoint: move it away, or make it lead to the checkpoint",
                             path, is.empty() ? "a file" : is)};
  }
  return {};
}

}  // namespace

Result<void> check_output_directory(const Config& config) {
  std::error_code unused;
  const std::string& dir = config.output.dir;
  const auto refused = [&](std::string_view is) {
    return Error{ErrorKind::usage,
                 fmt::format("output.dir: {} is {}; name a directory for this run alone, such as runs/{}",
                             dir, is, "first")};
  };
  if (dir.empty())
    return Error{ErrorKind::usage,
                 "output.dir is empty, perhaps from a variable that is not set; name a directory"};
  if (const std::string_view dead = dead_link(dir); !dead.empty()) return refused(dead);
  if (fs::equivalent(dir, "/", unused)) return refused("the root of the file system");
  if (!config.model_directory.empty() && fs::equivalent(dir, config.model_directory, unused))
    return refused("the directory of the model that training starts from");
  const fs::path there = fs::weakly_canonical(dir, unused);
  for (fs::path above = there; above.has_relative_path(); above = above.parent_path()) {
    if (fs::exists(above, unused) && !fs::is_directory(above, unused))
      return refused(above == there ? "not a directory"
                                    : fmt::format("below {}, which is not a directory", above.string()));
    if (parse_checkpoint_name(above.filename().string()) && fs::exists(above / manifest_file, unused))
      return refused(fmt::format("in the checkpoint {}", above.string()));
  }
  for (const char* name : written_files) TRY(check_can_be_file(dir + "/" + name));
  if (std::ranges::find(config.output.report_to, "csv") != config.output.report_to.end())
    TRY(check_can_be_file(dir + "/metrics.csv"));
  return check_checkpoint_names(dir);
}

Result<RunDirectory> RunDirectory::open(const std::string& dir) {
  if (const Result<void> made = make_directories(dir, FileUse::run); !made)
    return Error{made.error().kind, fmt::format("output.dir {}: {}", dir, made.error().message)};
  RunDirectory out;
  out.dir_ = dir;
  out.fd_ = Fd(::open(dir.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!out.fd_)
    return Error{ErrorKind::io,
                 with_advice(fmt::format("cannot open output.dir {}: {}", dir, errno_text(errno)), errno,
                             FileUse::run)};
  TRY_ASSIGN(
      out.lock_,
      DirectoryLock::take(
          {.dir = dir, .file = run_lock_name, .what = "run directory", .remedy = "set another output.dir"}));
  return out;
}

Result<void> RunDirectory::lock(const std::string& dir) {
  if (fd_) return {};
  TRY_ASSIGN(*this, open(dir));
  return {};
}

Result<void> RunDirectory::check_beginning(Beginning beginning) const {
  TRY_ASSIGN(const std::vector<u64> steps, checkpoint_steps(dir_));
  if (beginning == Beginning::resumed || steps.empty()) return {};
  return Error{
      ErrorKind::usage,
      fmt::format("{} already holds checkpoints: resume with --resume auto, or set another output.dir",
                  dir_)};
}

std::optional<MovedDirectory> RunDirectory::moved() const {
  struct stat here {
  }, named{};
  const bool there = ::stat(dir_.c_str(), &named) == 0;
  if (!there && errno != ENOENT && errno != ENOTDIR)
    return std::nullopt;  // an I/O fault does not mean that the directory moved
  if (::fstat(fd_.get(), &here) != 0) return std::nullopt;
  if (there && here.st_ino == named.st_ino && here.st_dev == named.st_dev) return std::nullopt;
  MovedDirectory moved{.name_is_taken = there};
  std::error_code failed;
  const fs::path now = fs::read_symlink(fmt::format("/proc/self/fd/{}", fd_.get()), failed);
  if (here.st_nlink > 0 && !failed && fs::is_directory(now, failed)) moved.now = now.string();
  return moved;
}

bool RunDirectory::has_moved(double now) {
  constexpr double look_seconds = 1;
  if (has_moved_ || now - looked_at_ < look_seconds) return has_moved_;
  looked_at_ = now;
  return has_moved_ = moved().has_value();
}

std::string RunDirectory::change_of_plan(const std::string& plan) const {
  const Result<std::string> before = read_text_file(dir_ + "/plan.txt");
  return before ? plan_change(*before, plan) : "";
}

Result<void> RunDirectory::describe_run(const std::string& config_yaml, const std::string& plan) const {
  TRY(replace_file(dir_ + "/config.yaml", sealed_by_comment(config_yaml), FileUse::run));
  return replace_file(dir_ + "/plan.txt", plan, FileUse::run);
}

std::string change_of_written_config(const std::string& run_dir) {
  const std::string path = run_dir + "/config.yaml";
  const Result<std::string> text = read_text_file(path);
  if (!text || !comment_is_broken(*text)) return "";
  return fmt::format("{}: was changed or damaged since the run wrote this file; the present content is used",
                     path);
}

std::string run_of_checkpoint(const std::string& checkpoint) {
  const fs::path run = directory_above(checkpoint);
  std::error_code failed;
  const bool is_run = fs::exists(run / "report.json", failed) || fs::exists(run / "plan.txt", failed);
  return is_run ? run.string() : "";
}

}  // namespace tidepool
