// Deletes directories of a run: leftovers of killed runs at the start, old checkpoints after a save.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <span>
#include <string_view>

#include "base/check.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/names.h"

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

// Steps to delete, in this order.
// REQUIRES: `steps` is ascending and contains saved_step.
std::vector<u64> CheckpointStore::to_go(const Rotation& rotation, const std::vector<u64>& steps) const {
  if (rotation.total_limit == 0 || steps.size() <= rotation.total_limit) return {};
  const auto trusted = [&](u64 step) {
    return std::find(rotation.distrusted.begin(), rotation.distrusted.end(), path_of(step)) ==
           rotation.distrusted.end();
  };
  std::vector<u64> candidates = steps;
  std::erase_if(candidates,
                [&](u64 step) { return step == rotation.saved_step || step == rotation.best_step; });
  std::stable_partition(candidates.begin(), candidates.end(), [&](u64 step) { return !trusted(step); });
  candidates.resize(std::min<u64>(candidates.size(), steps.size() - rotation.total_limit));
  return candidates;
}

// Renames before deleting: a kill during the deletion must not leave half a checkpoint under its name.
Result<void> CheckpointStore::remove_checkpoint(u64 step) {
  const std::string gone = fmt::format("{}.gone-{}", path_of(step), ::getpid());
  TRY(files_->rename(path_of(step), gone));
  return files_->remove(gone);
}

Result<std::vector<std::string>> CheckpointStore::rotate(const Rotation& rotation) {
  std::vector<std::string> removed;
  if (rotation.total_limit == 0) return removed;
  TRY_ASSIGN(std::vector<u64> steps, checkpoint_steps(run_dir_));
  std::erase_if(steps, [&](u64 step) { return step > rotation.saved_step; });
  CHECK(!steps.empty() && steps.back() == rotation.saved_step, rotation.saved_step);
  for (const u64 step : to_go(rotation, steps)) {
    TRY(remove_checkpoint(step));
    removed.push_back(path_of(step));
  }
  return removed;
}

Result<std::vector<std::string>> CheckpointStore::make_room(const Rotation& rotation) {
  std::vector<std::string> removed;
  TRY_ASSIGN(std::vector<u64> steps, checkpoint_steps(run_dir_));
  std::erase_if(steps, [&](u64 step) { return step >= rotation.saved_step; });
  const auto whole = [&](u64 step) {  // all files: a deleted checkpoint cannot help any more
    return is_whole(path_of(step));
  };
  const auto newest = std::find_if(steps.rbegin(), steps.rend(), whole);
  if (newest == steps.rend()) return removed;
  const u64 last_good = *newest;
  steps.push_back(rotation.saved_step);
  for (const u64 step : to_go(rotation, steps)) {
    if (step == last_good) continue;
    TRY(remove_checkpoint(step));
    removed.push_back(path_of(step));
  }
  return removed;
}

Result<void> CheckpointStore::rehearse() {
  const auto named = [&](CheckpointMark mark) {
    return run_dir_ + "/" + to_text(CheckpointName{.mark = mark, .pid = static_cast<u64>(::getpid())});
  };
  const std::string before = named(CheckpointMark::tmp), after = named(CheckpointMark::gone);
  const auto save = [&]() -> Result<void> {
    constexpr std::string_view text = "tidepool: a save of a few bytes, to see whether it can be done\n";
    TRY(files_->make_directory(before));
    TRY_ASSIGN(const auto file, files_->create(before + "/file", Bytes{text.size()}));
    TRY(file->append(std::as_bytes(std::span(text))));
    TRY(file->finish());
    TRY(files_->sync_directory(before));
    TRY(files_->rename(before, after));
    return files_->sync_directory(run_dir_);
  };
  const Result<void> saved = save();
  if (!saved) (void)files_->remove(before);  // the first error is reported
  const Result<void> removed = files_->remove(after);
  return saved ? removed : saved;
}

}  // namespace tidepool
