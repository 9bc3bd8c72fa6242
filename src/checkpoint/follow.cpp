// A run that resumes from an earlier checkpoint abandons a branch. The branch is renamed, not deleted: nobody
// asked to delete it.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "checkpoint/checkpoint.h"

namespace tidepool {
namespace {

namespace fs = std::filesystem;

// checkpoint-200.abandoned, or checkpoint-200.abandoned-2 if that exists.
std::string free_name(const std::string& path) {
  std::error_code unused;
  std::string name = path + ".abandoned";
  for (u64 i = 2; fs::exists(fs::symlink_status(name, unused)); ++i)
    name = fmt::format("{}.abandoned-{}", path, i);
  return name;
}

}  // namespace

// The newest is renamed last: after a kill in between, it is still the newest checkpoint.
Result<std::vector<std::string>> CheckpointStore::set_aside(const std::vector<u64>& steps) {
  std::vector<std::string> aside;
  for (const u64 s : steps) {
    aside.push_back(free_name(path_of(s)));
    TRY(files_->rename(path_of(s), aside.back()));
  }
  return aside;
}

Result<std::vector<std::string>> CheckpointStore::set_aside_after(u64 step) {
  TRY_ASSIGN(std::vector<u64> ahead, checkpoint_steps(run_dir_));
  std::erase_if(ahead, [&](u64 s) { return s <= step; });
  TRY_ASSIGN(std::vector<std::string> aside, set_aside(ahead));
  if (!aside.empty()) TRY(files_->sync_directory(run_dir_));
  return aside;
}

Result<std::vector<std::string>> CheckpointStore::follow(FoundCheckpoint& found) {
  std::error_code unused;
  const u64 step = found.state.step;
  TRY_ASSIGN(std::vector<u64> ahead, checkpoint_steps(run_dir_));
  const bool in_place = fs::equivalent(found.path, path_of(step), unused);
  std::erase_if(ahead, [&](u64 s) { return s < step || (s == step && in_place); });

  TRY_ASSIGN(const std::vector<std::string> aside, set_aside(ahead));
  const bool was_aside = fs::equivalent(fs::absolute(found.path, unused).parent_path(), run_dir_, unused) &&
                         fs::path(found.path)
                             .filename()
                             .string()
                             .starts_with(fs::path(path_of(step)).filename().string() + ".abandoned");
  if (was_aside) {
    TRY(files_->rename(found.path, path_of(step)));
    found.path = path_of(step);
  }
  if (was_aside || !aside.empty()) TRY(files_->sync_directory(run_dir_));
  return aside;
}

}  // namespace tidepool
