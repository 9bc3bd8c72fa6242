#include "trainer/run_directory.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "checkpoint/checkpoint.h"
#include "report/text_file.h"
#include "trainer/plan_change.h"

namespace tidepool {
namespace {

Result<void> write_file(const std::string& path, const std::string& text) {
  TRY(check_can_be_file(path));
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (!out) return Error{ErrorKind::io, fmt::format("cannot write {}: is the disk full or read-only?", path)};
  return {};
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

}  // namespace tidepool
