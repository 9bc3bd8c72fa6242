// RunCheckpoints, saving: retries, makes room, and rescues the state elsewhere before a training is given up.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/steady_seconds.h"
#include "base/text/units.h"
#include "io/file_system.h"
#include "run/directory/run_directory.h"
#include "run/outputs/signals.h"
#include "run/saves/run_checkpoints.h"
#include "run/saves/state_readers.h"
#include "run/weights/kept_model.h"

namespace tidepool {
namespace {

constexpr double retry_seconds_max = 10;
constexpr const char* rescued_folder = "rescued";  // in memory.swap_dir

// RETURNS: false if the first stop signal came while waiting.
bool wait_unless_stopped(double seconds, bool stopped_before) {
  constexpr std::chrono::milliseconds slice(50);
  for (const double until = steady_seconds() + seconds; steady_seconds() < until;) {
    if (!stopped_before && StopSignals::stop_requested()) return false;
    std::this_thread::sleep_for(slice);
  }
  return true;
}

bool on_one_file_system(const std::string& a, const std::string& b) {
  struct stat at_a {
  }, at_b{};
  return ::stat(existing_parent(a).c_str(), &at_a) == 0 && ::stat(existing_parent(b).c_str(), &at_b) == 0 &&
         at_a.st_dev == at_b.st_dev;
}

}  // namespace

Result<bool> RunCheckpoints::save(const TrainerState& state, StateReader& reader) {
  TRY_ASSIGN(const Refusal refusal, attempt(state, reader));
  if (refusal) outputs_.warn(*refusal + " Training continues, and the next save tries again");
  return !refusal;
}

bool RunCheckpoints::begin_save(const TrainerState& state, std::unique_ptr<StateReader> reader,
                                double share) {
  outputs_.sync();
  (void)store_->take_ran_full();
  Result<std::unique_ptr<BackgroundSave>> begun =
      BackgroundSave::begin(*store_, state, std::move(reader), share);
  if (!begun) {
    outputs_.warn(begun.error().message + " Training continues, and the next save tries again");
    return false;
  }
  background_ = *std::move(begun);
  return true;
}

std::optional<TrainerState> RunCheckpoints::end_save() {
  const Result<SavedCheckpoint> saved = background_->take();
  const std::unique_ptr<BackgroundSave> ended = std::move(background_);
  if (saved) {
    accept(*saved, ended->state(), ended->began());
    return ended->state();
  }
  // A mend now is for the next save.
  if (saved.error().kind == ErrorKind::corrupt_checkpoint)
    if (const auto mended = mend_kept_model(config_))
      for (const std::string& line : *mended) outputs_.say(line);
  if (store_->take_ran_full()) make_room(ended->state().step);
  outputs_.warn(saved.error().message + " Training continues, and the next save tries again");
  return std::nullopt;
}

Result<RunCheckpoints::Refusal> RunCheckpoints::attempt(const TrainerState& state, StateReader& reader) {
  const double began = steady_seconds();
  outputs_.sync();  // the logs hold what the checkpoint does not repeat
  WatchedReader watched(reader);
  (void)store_->take_ran_full();
  Result<SavedCheckpoint> saved = store_->save(state, watched);
  if (!saved && !watched.failed() && saved.error().kind == ErrorKind::corrupt_checkpoint)
    saved = mend_and_save(state, watched);
  if (!saved && !watched.failed() && store_->take_ran_full() && make_room(state.step))
    saved = store_->save(state, watched);
  if (watched.failed()) return saved.error();
  if (!saved) return Refusal(saved.error().message);
  accept(*saved, state, began);
  return Refusal();
}

void RunCheckpoints::accept(const SavedCheckpoint& saved, const TrainerState& state, double began) {
  last_ = saved;
  best_step_ = state.best_step;
  written_ += saved.bytes;
  const auto rotated = store_->rotate({.saved_step = state.step,
                                       .total_limit = config_.output.save_total_limit,
                                       .best_step = state.best_step,
                                       .distrusted = distrusted()});
  if (!rotated) outputs_.warn("an old checkpoint could not be deleted: " + rotated.error().message);
  point_at_best(state.best_step);
  outputs_.say(fmt::format("saved {} in {}", last_.path, seconds_text(steady_seconds() - began)));
}

// Keeps the previous best: if the checkpoint to be saved is better, it is not on the disk yet.
bool RunCheckpoints::make_room(u64 step) {
  const auto removed = store_->make_room({.saved_step = step,
                                          .total_limit = config_.output.save_total_limit,
                                          .best_step = best_step_,
                                          .distrusted = distrusted()});
  if (!removed) {
    outputs_.warn("cannot make room for a checkpoint: " + removed.error().message);
    return false;
  }
  for (const std::string& path : *removed)
    outputs_.warn(fmt::format("{} has no room for a checkpoint: deleted {}, the next to be deleted anyway",
                              config_.output.dir, path));
  return !removed->empty();
}

Result<void> RunCheckpoints::save_last(const TrainerState& state, StateReader& reader) {
  TRY_ASSIGN(Refusal refusal, attempt(state, reader));
  if (!refusal) return {};
  const bool stopped = StopSignals::stop_requested();
  StopSignals::say_instead({.first = "\ntidepool: no more attempts to save\n",
                            .second = "\ntidepool: stopped at once; the last steps are not saved\n"});
  const double patience = config_.output.last_save_minutes * 60;
  if (patience > 0)
    outputs_.warn(fmt::format(
        "{} This was the last save: it is tried again for {} (output.last_save_minutes), and until "
        "then nothing of the training is lost. Fix the cause; Ctrl-C stops the retries",
        *refusal, seconds_text(patience)));
  const double pause = std::min(patience / 10, retry_seconds_max);
  for (const double until = steady_seconds() + patience;
       steady_seconds() < until && wait_unless_stopped(pause, stopped);) {
    const std::string before = *refusal;
    TRY_ASSIGN(refusal, attempt(state, reader));
    if (!refusal) return {};
    if (*refusal != before) outputs_.warn(*refusal);
  }
  return rescue(*refusal, state, reader);
}

Result<SavedCheckpoint> RunCheckpoints::save_in(const std::string& dir, const TrainerState& state,
                                                StateReader& reader) {
  CheckpointOptions options = options_;
  options.run_dir = dir;
  TRY_ASSIGN(const auto store, CheckpointStore::create(options, graph_));
  return store->save(state, reader);
}

Error RunCheckpoints::rescue(const std::string& why, const TrainerState& state, StateReader& reader) {
  const std::string& swap = config_.memory.swap_dir;
  const std::string lost = fmt::format("{} Steps up to {} are not saved: {}", why, state.step, resume_hint());
  if (swap.empty() || on_one_file_system(swap, config_.output.dir)) return {ErrorKind::io, lost};
  const Result<SavedCheckpoint> saved = save_in(fmt::format("{}/{}", swap, rescued_folder), state, reader);
  if (!saved) return {ErrorKind::io, lost};
  return {ErrorKind::io,
          fmt::format("{} The checkpoint was written to memory.swap_dir instead: resume with --resume {}",
                      why, saved->path)};
}

Error RunCheckpoints::save_moved(const MovedDirectory& moved, const TrainerState& state,
                                 StateReader& reader) {
  const std::string& dir = config_.output.dir;
  const std::string what = moved.now.empty()
                               ? fmt::format("output.dir {} was removed while the run used it", dir)
                               : fmt::format(
                                     "output.dir {} was renamed while the run used it: "
                                     "its path is now {}",
                                     dir, moved.now);
  if (!config_.output.save) return {ErrorKind::io, what + "; output.save is false, so nothing is saved"};
  if (moved.now.empty() && moved.name_is_taken)
    return rescue(what + ", and its name is now taken.", state, reader);
  const Result<SavedCheckpoint> saved = save_in(moved.now.empty() ? dir : moved.now, state, reader);
  if (!saved) return rescue(fmt::format("{}. {}", what, saved.error().message), state, reader);
  const std::string where =
      moved.now.empty() ? "" : fmt::format("rename it back, or set output.dir={}; then ", moved.now);
  return {ErrorKind::io, fmt::format("{}. The run ends; step {} is saved in {}: {}resume with --resume auto",
                                     what, state.step, saved->path, where)};
}

}  // namespace tidepool
