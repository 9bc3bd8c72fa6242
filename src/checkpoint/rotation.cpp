// Which directories of a run go: litter of dead runs at the start, old checkpoints after a save.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "checkpoint/checkpoint.h"
#include "checkpoint/names.h"
#include "tidepool/check.h"

namespace tidepool {
namespace {

// Whether another live process may still be writing it. Our own id on a directory from before our start is
// a reused one (in a container every run may be process 1).
bool may_be_in_use(const DirectoryName& n) {
  if (n.pid == static_cast<u64>(::getpid())) return false;
  return ::kill(static_cast<pid_t>(n.pid), 0) == 0 || errno == EPERM;
}

std::vector<DirectoryName> litter_in(const std::string& run_dir) {
  std::vector<DirectoryName> out;
  std::error_code ec;
  for (const auto& entry : std::filesystem::directory_iterator(run_dir, ec)) {
    const auto name = parse_directory_name(entry.path().filename().string());
    if (name && name->mark != DirectoryMark::whole && !may_be_in_use(*name)) out.push_back(*name);
  }
  return out;
}

}  // namespace

Result<std::vector<std::string>> CheckpointStore::sweep() {
  std::vector<std::string> swept;
  for (const DirectoryName& name : litter_in(run_dir_)) {
    const std::string path = run_dir_ + "/" + to_text(name);
    if (name.mark == DirectoryMark::old && ::access(path_of(name.step).c_str(), F_OK) != 0) {
      TRY(files_->rename(path, path_of(name.step)));
      continue;
    }
    TRY(files_->remove(path));
    swept.push_back(path);
  }
  return swept;
}

Result<std::vector<std::string>> CheckpointStore::rotate(const Rotation& rotation) {
  if (rotation.total_limit == 0) return std::vector<std::string>{};
  std::vector<u64> steps = checkpoint_steps(run_dir_);
  std::erase_if(steps, [&](u64 step) { return step > rotation.saved_step; });
  CHECK(!steps.empty() && steps.back() == rotation.saved_step, rotation.saved_step);

  const auto trusted = [&](u64 step) {
    return std::find(rotation.distrusted.begin(), rotation.distrusted.end(), path_of(step)) ==
           rotation.distrusted.end();
  };
  std::vector<u64> candidates = steps;  // in the order in which they go
  std::erase_if(candidates, [&](u64 step) { return step == rotation.saved_step || step == rotation.best_step; });
  std::stable_partition(candidates.begin(), candidates.end(), [&](u64 step) { return !trusted(step); });

  std::vector<std::string> removed;
  for (const u64 step : candidates) {
    if (steps.size() - removed.size() <= rotation.total_limit) break;
    // Renamed first: a kill in the middle of the deletion must not leave half a checkpoint under its name.
    const std::string gone = fmt::format("{}.gone-{}", path_of(step), ::getpid());
    TRY(files_->rename(path_of(step), gone));
    TRY(files_->remove(gone));
    removed.push_back(path_of(step));
  }
  return removed;
}

}  // namespace tidepool
