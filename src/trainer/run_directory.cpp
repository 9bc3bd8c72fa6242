#include "trainer/run_directory.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <system_error>

#include "checkpoint/checkpoint.h"
#include "report/text_file.h"
#include "text/path_text.h"
#include "trainer/plan_change.h"

namespace tidepool {
namespace {

namespace fs = std::filesystem;

Result<void> write_file(const std::string& path, const std::string& text) {
  TRY(check_can_be_file(path));
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (!out) return Error{ErrorKind::io, fmt::format("cannot write {}: is the disk full or read-only?", path)};
  return {};
}

// As short as `dir` was said, where that is possible.
fs::path directory_above(const std::string& dir) {
  std::error_code failed;
  const fs::path path = without_slashes(fs::path(dir).lexically_normal());
  if (fs::is_symlink(path, failed)) return fs::weakly_canonical(path, failed).parent_path();
  if (path.has_parent_path() && path.filename() != "..") return path.parent_path();
  return fs::path(without_slashes(fs::path(absolute_path(dir)).lexically_normal())).parent_path();
}

}  // namespace

Result<RunDirectory> RunDirectory::open(const std::string& dir, Beginning beginning) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (error) return Error{ErrorKind::io, fmt::format("cannot make output.dir {}: {}", dir, error.message())};
  RunDirectory out;
  out.dir_ = dir;
  TRY_ASSIGN(
      out.lock_,
      DirectoryLock::take(
          {.dir = dir, .file = run_lock_name, .what = "run directory", .remedy = "set another output.dir"}));
  TRY_ASSIGN(const std::vector<u64> steps, checkpoint_steps(dir));
  if (beginning == Beginning::anew && !steps.empty())
    return Error{
        ErrorKind::usage,
        fmt::format("{} already holds checkpoints: continue with --resume auto, or set another output.dir",
                    dir)};
  return out;
}

std::string RunDirectory::change_of_plan(const std::string& plan) const {
  const Result<std::string> before = read_text_file(dir_ + "/plan.txt");
  return before ? plan_change(*before, plan) : "";
}

Result<void> RunDirectory::describe_run(const std::string& config_yaml, const std::string& plan) const {
  TRY(write_file(dir_ + "/config.yaml", config_yaml));
  return write_file(dir_ + "/plan.txt", plan);
}

std::string run_of_checkpoint(const std::string& checkpoint) {
  const fs::path run = directory_above(checkpoint);
  std::error_code failed;
  const bool is_run = fs::exists(run / "report.json", failed) || fs::exists(run / "plan.txt", failed);
  return is_run ? run.string() : "";
}

}  // namespace tidepool
