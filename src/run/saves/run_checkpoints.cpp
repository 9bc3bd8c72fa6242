#include "run/saves/run_checkpoints.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>

#include "base/text/path_text.h"
#include "base/text/units.h"
#include "base/write_file.h"
#include "fit/memory_need.h"
#include "io/file_system.h"
#include "io/memory_limits.h"
#include "run/weights/kept_model.h"

namespace tidepool {
namespace {

Result<void> check_file_size(const std::string& dir, Bytes largest) {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
      limit.rlim_cur >= largest.value)
    return {};
  return Error{ErrorKind::io, fmt::format("the file size limit {} is below the {} that a file of a "
                                          "checkpoint in {} takes: raise the limit with "
                                          "`ulimit -f unlimited`",
                                          format_bytes({limit.rlim_cur}), format_bytes(largest), dir)};
}

}  // namespace

Result<std::unique_ptr<RunCheckpoints>> RunCheckpoints::open(const Job& job, RunOutputs& outputs) {
  const Config& config = job.config;
  std::unique_ptr<RunCheckpoints> out(new RunCheckpoints(job, outputs));
  out->options_ = {.run_dir = config.output.dir,
                   .buffer = checkpoint_buffer,
                   .max_shard_size = config.output.max_shard_size,
                   .source_config = {},
                   .carried = {},
                   .read_back = config.output.save_total_limit == 1};
  TRY_ASSIGN(out->options_.carried, files_for_checkpoints(config));
  TRY_ASSIGN(out->options_.source_config, kept_model_config(config));
  TRY_ASSIGN(out->store_, CheckpointStore::create(out->options_, job.graph));
  TRY_ASSIGN(const std::vector<std::string> litter, out->store_->sweep());
  for (const std::string& name : litter)
    outputs.say("removed an incomplete checkpoint of a dead run: " + name);
  return out;
}

Result<std::optional<FoundCheckpoint>> RunCheckpoints::find(const std::string& resume) {
  if (resume.empty()) return std::optional<FoundCheckpoint>();
  if (resume != "auto") {
    TRY_ASSIGN(FoundCheckpoint found, store_->open(without_slashes(resume)));
    return std::optional(std::move(found));
  }
  automatic_ = true;
  return find_automatically();
}

void RunCheckpoints::step_over(const SteppedOver& damaged) {
  outputs_.say(fmt::format("skipped {}: {}", damaged.path, damaged.reason));
  stepped_over_.push_back(damaged);
}

Result<std::optional<FoundCheckpoint>> RunCheckpoints::find_automatically() {
  TRY_ASSIGN(Resumable resumable, store_->find_resumable(distrusted()));
  if (!resumable.found && !(resumable.stepped_over.empty() && stepped_over_.empty())) {
    stepped_over_.insert(stepped_over_.end(), resumable.stepped_over.begin(), resumable.stepped_over.end());
    return none_is_good(config_.output.dir, stepped_over_);
  }
  for (const SteppedOver& s : resumable.stepped_over) step_over(s);
  if (!resumable.found)
    outputs_.warn(fmt::format("--resume auto: {} holds no checkpoint, so training starts at step 1",
                              config_.output.dir));
  return std::move(resumable.found);
}

void RunCheckpoints::say_set_aside(const std::vector<std::string>& paths, u64 step) {
  for (const std::string& path : paths)
    outputs_.say(fmt::format(
        "set aside {}, a newer checkpoint of the branch left at step {}; delete it or resume from it", path,
        step));
}

Result<void> RunCheckpoints::resumed_from_commit(u64 best_step, std::optional<u64> branch_ends) {
  best_step_ = best_step;
  if (!branch_ends) return {};
  TRY_ASSIGN(const std::vector<std::string> aside, store_->set_aside_after(*branch_ends));
  say_set_aside(aside, *branch_ends);
  return {};
}

Result<std::optional<FoundCheckpoint>> RunCheckpoints::resume_from(FoundCheckpoint found,
                                                                   StateWriter& writer) {
  const u64 step = found.state.step;
  if (Result<void> restored = store_->restore(found, writer); !restored) {
    if (!automatic_ || restored.error().kind != ErrorKind::corrupt_checkpoint) return restored.error();
    step_over({found.path, restored.error().message});
    TRY(writer.finish());
    return find_automatically();
  }
  outputs_.say(fmt::format("resumed from {} (step {})", found.path, step));
  // No branch is set aside if --resume auto stepped over checkpoints: these are newer because they are
  // damaged, not because they are of another branch. They keep their names.
  if (stepped_over_.empty()) {
    TRY_ASSIGN(const std::vector<std::string> aside, store_->follow(found));
    say_set_aside(aside, step);
  }
  std::error_code unused;
  if (!std::filesystem::equivalent(found.path, store_->path_of(step), unused))
    return std::optional<FoundCheckpoint>();  // the checkpoint is in another directory
  last_ = {.path = found.path, .weights_xxh3 = found.weights_xxh3};
  best_step_ = found.state.best_step;
  point_at_best(best_step_);  // of this branch
  return std::optional<FoundCheckpoint>();
}

// Points checkpoint-best at the best checkpoint, for people and programs that open it by name. Tidepool
// itself never follows the link, so on a file system without links a failure is only printed.
void RunCheckpoints::point_at_best(u64 step) {
  namespace fs = std::filesystem;
  const fs::path link = fs::path(config_.output.dir) / best_checkpoint_link;
  std::error_code error;
  if (fs::exists(fs::symlink_status(link, error)) && !fs::is_symlink(fs::symlink_status(link, error)))
    return;  // not ours
  if (step == 0 || !fs::exists(store_->path_of(step), error)) {
    fs::remove(link, error);
    return;
  }
  const fs::path target = fs::path(store_->path_of(step)).filename();
  if (fs::read_symlink(link, error) == target) return;
  const fs::path fresh = link.string() + ".new";
  fs::remove(fresh, error);
  fs::create_directory_symlink(target, fresh, error);
  if (!error) fs::rename(fresh, link, error);
  if (!error)
    (void)sync_directory(config_.output.dir, FileUse::run);  // a lost link is no harm: it is recreated
  if (error)
    outputs_.say(fmt::format("{} could not be made ({}); the best checkpoint is {}", link.string(),
                             error.message(), target.string()));
}

std::vector<std::string> RunCheckpoints::distrusted() const {
  std::vector<std::string> paths;
  for (const SteppedOver& s : stepped_over_) paths.push_back(s.path);
  return paths;
}

std::string RunCheckpoints::resume_hint() const {
  if (!hint_.empty()) return hint_;
  if (!last_.path.empty()) return fmt::format("resume with --resume auto from {}", last_.path);
  if (!config_.output.save) return "start again: output.save is false, so nothing was saved";
  return "start again: no checkpoint had been written (output.save_steps and output.save_minutes set how "
         "often)";
}

u64 RunCheckpoints::saves_to_come(u64 step, double step_seconds) const {
  const u64 last = config_.train.max_steps, every = config_.output.save_steps;
  if (last == 0) return 1;
  if (step >= last) return 0;
  u64 planned = every == 0 ? 1 : (last - 1) / every - step / every + 1;
  if (const double minutes = config_.output.save_minutes; minutes > 0)
    planned +=
        static_cast<u64>(std::min(static_cast<double>(last - step) * step_seconds / (60 * minutes), 1e6));
  // With early stopping every evaluation may be the best so far, and is then saved.
  const u64 evaluate = config_.train.early_stopping_patience == 0 ? 0 : config_.train.eval_steps;
  return planned + (evaluate == 0 ? 0 : (last - 1) / evaluate - step / evaluate);
}

Result<void> RunCheckpoints::check_room(u64 step, double step_seconds) const {
  const u64 saves = saves_to_come(step, step_seconds);
  if (saves == 0 || !config_.output.save) return {};
  if (const Result<void> rehearsed = store_->rehearse(); !rehearsed)
    return Error{rehearsed.error().kind, fmt::format("no checkpoint could be written to {}: {}",
                                                     config_.output.dir, rehearsed.error().message)};
  const Bytes each = checkpoint_bytes(graph_);
  const std::string& dir = config_.output.dir;
  TRY(check_file_size(dir, checkpoint_file_bytes_max(graph_)));
  TRY_ASSIGN(const FileSystem at, look_at_file_system(dir));
  if (at.free < each)
    return Error{
        ErrorKind::io,
        fmt::format(
            "a checkpoint takes {}, but {} has {} free: free some space there, or put output.dir on a "
            "larger disk",
            format_bytes(each), dir, format_bytes(at.free))};
  TRY_ASSIGN(const std::vector<u64> there, checkpoint_steps(dir));
  // A new checkpoint needs room beside all that may stay, until it is complete. With a limit of 1, the best
  // may be one more.
  const u64 held = std::max<u64>(config_.output.save_total_limit, 2) + 1;
  const u64 more = std::min(there.size() + saves, std::max<u64>(held, there.size() + 1)) - there.size();
  if (at.free >= each * more) return {};
  outputs_.warn(
      fmt::format("{} has {} free, room for {} more checkpoint{} of {}, and this run will need room for "
                  "{}: free some space there, or lower output.save_total_limit",
                  dir, format_bytes(at.free), at.free.value / each.value, at.free < each * 2 ? "" : "s",
                  format_bytes(each), more));
  return {};
}

// Mends the run's model-files, which may be damaged while the run trains, so that no checkpoint carries
// damaged files.
Result<SavedCheckpoint> RunCheckpoints::mend_and_save(const TrainerState& state, StateReader& reader) {
  TRY_ASSIGN(const std::vector<std::string> mended, mend_kept_model(config_));
  for (const std::string& line : mended) outputs_.say(line);
  return store_->save(state, reader);
}

}  // namespace tidepool
