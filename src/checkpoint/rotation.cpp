// Which directories of a run go: litter of dead runs at the start, old checkpoints after a save.
#include <unistd.h>

#include <algorithm>

#include "checkpoint/checkpoint.h"
#include "checkpoint/names.h"
#include "tidepool/check.h"

namespace tidepool {
Result<std::vector<std::string>> CheckpointStore::sweep() {
  std::vector<std::string> swept;
  TRY_ASSIGN(const std::vector<CheckpointName> all, list_checkpoints(run_dir_));
  for (const CheckpointName& name : all) {
    if (name.mark == CheckpointMark::whole) continue;
    const std::string path = run_dir_ + "/" + to_text(name);
    if (name.mark == CheckpointMark::old && ::access(path_of(name.step).c_str(), F_OK) != 0) {
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
  TRY_ASSIGN(std::vector<u64> steps, checkpoint_steps(run_dir_));
  std::erase_if(steps, [&](u64 step) { return step > rotation.saved_step; });
  CHECK(!steps.empty() && steps.back() == rotation.saved_step, rotation.saved_step);

  const auto trusted = [&](u64 step) {
    return std::find(rotation.distrusted.begin(), rotation.distrusted.end(), path_of(step)) ==
           rotation.distrusted.end();
  };
  std::vector<u64> candidates = steps;  // in the order in which they go
  std::erase_if(candidates,
                [&](u64 step) { return step == rotation.saved_step || step == rotation.best_step; });
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
