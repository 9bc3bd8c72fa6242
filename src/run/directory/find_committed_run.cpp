#include "run/directory/find_committed_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/text/path_text.h"
#include "checkpoint/checkpoint.h"
#include "io/directory_lock.h"
#include "io/swap_file.h"
#include "run/commits/commit_progress.h"
#include "run/directory/run_directory.h"

namespace tidepool {
namespace {

namespace fs = std::filesystem;

std::string committed_text(const FoundState& found) {
  return fmt::format("{} holds the state of a run that ended without finishing, committed after step {}",
                     found.path, found.commit.step);
}

std::string to_begin_anew(const Config& config) {
  return fmt::format("set another output.dir{} to begin anew",
                     config.memory.swap_dir.empty() ? "" : " and another memory.swap_dir");
}

// RETURNS: the words after "or": how to train on without what was committed.
std::string way_without(const Config& config, std::optional<u64> checkpoint) {
  if (!checkpoint) return to_begin_anew(config);
  return fmt::format("train on without it: --resume {}/checkpoint-{}", without_slashes(config.output.dir),
                     *checkpoint);
}

// The directory in which a run has committed its state, as it is now.
std::string place_of(const Config& config, const BranchNote& note) {
  return note.swap_dir.empty() ? without_slashes(config.output.dir) + "/swap" : note.swap_dir;
}

bool is_one_place(const std::string& a, const std::string& b) {
  return canonical_path(a) == canonical_path(b);
}

// RETURNS: " and memory.swap_dir=...", if the config has another one.
std::string and_there(const Config& config, const std::string& place) {
  return is_one_place(place, swap_directory(config)) ? "" : " and memory.swap_dir=" + place;
}

std::string state_of_place(const std::string& place) {
  std::error_code unknown;
  if (!fs::is_directory(place, unknown)) return "there is no such directory now";
  return fmt::format("no {} of that branch is there now", swap_file_name);
}

bool names(const std::string& resume, const std::string& file) {
  std::error_code none;
  return !resume.empty() && resume != "auto" && fs::equivalent(resume, file, none);
}

// A checkpoint of the committed step, or a later one, leaves nothing behind.
bool is_as_new(const std::string& checkpoint, u64 step) {
  const Result<TrainerState> state = read_trainer_state(without_slashes(checkpoint));
  return state && state->step >= step;
}

bool trains_branch(const std::string& run_dir, const std::string& id) {
  const Result<std::optional<BranchNote>> note = read_branch_note(run_dir);
  return note && *note && (*note)->id() == id;
}

class Search {
 public:
  Search(const Job& job, const std::string& resume)
      : config_(job.config),
        graph_(job.graph),
        resume_(resume),
        path_(swap_directory(config_) + "/" + swap_file_name) {}

  Result<FoundCommit> find(const std::function<void(const std::string&)>& warn) {
    TRY(check_names_no_other_file());
    TRY_ASSIGN(out_.note, read_branch_note(config_.output.dir));
    TRY_ASSIGN(const std::vector<u64> steps, checkpoint_steps(config_.output.dir));
    if (!steps.empty()) checkpoint_ = steps.back();
    if (lock_holder(swap_directory(config_), swap_job_name)) {
      TRY(check_live_job());
      return std::move(out_);
    }
    TRY(read(warn));
    TRY(check_elsewhere());
    if (!found_) {
      TRY(check_is_not_missing(std::nullopt));
      return std::move(out_);
    }
    out_.is_asked_for = names(resume_, path_);
    TRY(check_is_of_run());
    TRY(check_branch());
    if (!out_.is_asked_for && !found_->newest_is_torn) TRY(check_is_not_missing(found_->commit.step));
    TRY(check_is_wanted());
    if (const std::string differs = difference_of_models(described_.table, graph_); !differs.empty())
      return usage(fmt::format("{}, of another model: {}. Restore its settings, or {}",
                               committed_text(*found_), differs, to_begin_anew(config_)));
    TRY_ASSIGN(TrainerState state, progress_of_commit(found_->commit.payload, path_));
    out_.run = CommittedRun{.found = *std::move(found_),
                            .table = std::move(described_.table),
                            .state = std::move(state),
                            .branch = described_.owner.branch};
    return std::move(out_);
  }

 private:
  static Error usage(std::string message) { return {ErrorKind::usage, std::move(message)}; }
  bool begins_anew() const { return resume_.empty(); }

  Result<void> check_names_no_other_file() const {
    std::error_code none;
    if (resume_.empty() || resume_ == "auto" || !fs::is_regular_file(resume_, none) || names(resume_, path_))
      return {};
    if (fs::path(resume_).filename() != swap_file_name)
      return usage(fmt::format("--resume {}: is a file; name the directory of a checkpoint", resume_));
    return usage(
        fmt::format("--resume {}: is not the swap file of memory.swap_dir: set memory.swap_dir={} too",
                    resume_, canonical_path(fs::path(absolute_path(resume_)).parent_path())));
  }

  // Refuses a swap directory that another live run holds. A reader of a live run meets that run's own lock.
  Result<void> check_live_job() const {
    const std::optional<long> holder = lock_holder(config_.output.dir, run_lock_name);
    if (!are_missing() || (holder && *holder != ::getpid())) return {};
    const Result<DirectoryLock> lock = DirectoryLock::take({.dir = swap_directory(config_),
                                                            .file = swap_job_name,
                                                            .what = "swap directory",
                                                            .remedy = "choose another memory.swap_dir"});
    if (!lock) return lock.error();
    return {};
  }

  Result<void> read(const std::function<void(const std::string&)>& warn) {
    Result<std::optional<FoundState>> found = read_state_file(path_);
    if (!found && found.error().kind == ErrorKind::bad_input) return damaged(found.error());
    if (!found) return found.error();
    if (!*found) return {};
    found_ = **std::move(found);
    if (found_->newest_is_torn)
      warn(
          found_->commit.sequence == 0
              ? fmt::format("{}: its only commit is torn or damaged, so there is nothing to resume from",
                            path_)
              : fmt::format("{}: its newest commit is torn or damaged: the one before it, of step {}, counts",
                            path_, found_->commit.step));
    Result<DescribedState> described = parse_state(found_->head.description, path_);
    if (found_->commit.sequence == 0) {
      // A kill has left the first commit of this branch unfinished: no step of it is missing.
      if (described && out_.note && described->owner.branch == out_.note->id())
        out_.note->begun = out_.note->step;
      found_.reset();
      return {};
    }
    if (!described) return damaged(described.error());
    described_ = *std::move(described);
    if (found_->commit.chunks.size() != described_.table.marks() || !described_.table.has_slots_of(*found_))
      return damaged({ErrorKind::bad_input,
                      fmt::format("{}: its commit and its description do not fit each other. Nothing "
                                  "was changed",
                                  path_)});
    return {};
  }

  Error damaged(Error error) const {
    error.message += fmt::format(". Bring an undamaged file back, or move this one away and {}",
                                 way_without(config_, checkpoint_));
    return error;
  }

  // ---- whose it is -------------------------------------------------------------------------------------

  // A directory may have been moved with all that is in it. One beside its swap directory is known by the
  // branch that it trains, unless the directory that it was copied from still trains it.
  Result<void> check_is_of_run() const {
    const auto& [run, branch] = described_.owner;
    if (config_.memory.swap_dir.empty() || is_one_place(run, config_.output.dir)) return {};
    if (out_.note && out_.note->knows(branch) && !trains_branch(run, branch)) return {};
    if (out_.is_asked_for && !commits_here(run)) return {};
    std::error_code unknown;
    const std::string its = fmt::format("{}: it is of the run in {}", committed_text(*found_), run);
    if (!fs::is_directory(run, unknown))
      return usage(
          fmt::format("{}, which is not there. If that run was moved, move it back to this name and "
                      "resume with --resume auto and output.dir={}; else {}",
                      its, run, other_ways()));
    return usage(fmt::format("{}. Resume it there with --resume auto and output.dir={}, or {}", its, run,
                             other_ways()));
  }

  // True if the other run, as far as is known, commits its state in this very file, and not in another copy.
  bool commits_here(const std::string& run) const {
    const Result<std::optional<BranchNote>> note = read_branch_note(run);
    if (!note || !*note) return !note;
    return is_one_place((*note)->swap_dir.empty() ? run + "/swap" : (*note)->swap_dir,
                        swap_directory(config_));
  }

  // The run itself has nothing to do with the file in its way.
  std::string other_ways() const {
    if (!are_missing()) return "choose another memory.swap_dir, or move the file away";
    if (!checkpoint_) return to_begin_anew(config_);
    return fmt::format("choose another memory.swap_dir and {}", way_without(config_, checkpoint_));
  }

  Result<void> check_branch() {
    const std::string& branch = described_.owner.branch;
    if (!out_.note) return check_directory_is_not_new();
    if (out_.note->id() == branch) return {};
    const u64 step = found_->commit.step;
    out_.left_at = out_.note->left_at(branch);
    if (out_.left_at && step <= *out_.left_at) return {};  // the trained branch has these steps too
    if (!out_.left_at) out_.left_at = 0;                   // unknown
    if (out_.is_asked_for) return {};
    std::string text = fmt::format("{} holds step {} of a branch that this run has left", path_, step);
    if (*out_.left_at > 0) text += fmt::format(" at step {}", *out_.left_at);
    const std::string back = fmt::format("to return to that branch, resume with --resume {}", path_);
    if (begins_anew()) return usage(fmt::format("{}: {}, or {}", text, to_begin_anew(config_), back));
    if (resume_ != "auto")
      return usage(fmt::format("{}: move the file away to resume from {}, or {}", text, resume_, back));
    if (!are_missing())
      return usage(fmt::format("{}: move the file away and resume with --resume auto, or {}", text, back));
    const std::string place = place_of(config_, *out_.note);
    return usage(
        fmt::format("{}; its {} since then were committed in {}, and {}: move this file away, bring that one "
                    "back and resume with --resume auto{}; or move this file away and {}; or {}",
                    text, out_.note->committed_steps(), place, state_of_place(place),
                    and_there(config_, place), way_without(config_, checkpoint_), back));
  }

  // A directory that has the name of the run's, in which nothing was trained: the run's may have been moved.
  Result<void> check_directory_is_not_new() const {
    if (out_.is_asked_for || config_.memory.swap_dir.empty() || is_named(config_.output.dir + "/config.yaml"))
      return {};
    return usage(fmt::format(
        "{}, but {} has nothing of that run: if its directory was moved, resume it there with --resume auto "
        "and its new name as output.dir; to train on here from that state, resume with --resume {}; else {}",
        committed_text(*found_), config_.output.dir, path_, to_begin_anew(config_)));
  }

  // ---- what it lacks -----------------------------------------------------------------------------------

  // Steps that the run has committed, and that are neither here nor in a checkpoint.
  bool are_missing() const { return out_.note && out_.note->is_beyond(checkpoint_.value_or(0)); }

  // The run has committed its state in another directory than this config names.
  Result<void> check_elsewhere() const {
    if (!out_.note || is_one_place(place_of(config_, *out_.note), swap_directory(config_))) return {};
    if (!begins_anew() && resume_ != "auto") return {};  // it stays where it is
    const std::string place = place_of(config_, *out_.note);
    const Result<std::optional<FoundState>> other = read_state_file(place + "/" + swap_file_name);
    if (!other || !*other || (*other)->commit.sequence == 0) return {};
    const Result<DescribedState> described = parse_state((*other)->head.description, (*other)->path);
    if (!described || described->owner.branch != out_.note->id()) return {};
    const u64 step = (*other)->commit.step;
    const bool is_moved = found_ && described_.owner.branch == out_.note->id() && found_->commit.step >= step;
    if (is_moved || step <= checkpoint_.value_or(0)) return {};
    const std::string& run = described->owner.run;
    if (!is_one_place(run, config_.output.dir) && trains_branch(run, out_.note->id()))
      return usage(
          fmt::format("{} holds the state of the run in {}, of which {} is a copy, committed after step "
                      "{}: {}",
                      (*other)->path, run, config_.output.dir, step, way_without(config_, checkpoint_)));
    return usage(
        fmt::format("{} holds the state of this run, committed after step {}: resume with --resume auto "
                    "and memory.swap_dir={}, or {}",
                    (*other)->path, step, place, way_without(config_, checkpoint_)));
  }

  // `commit`: the step that is found.
  Result<void> check_is_not_missing(std::optional<u64> commit) const {
    if (!begins_anew() && resume_ != "auto") return {};
    std::optional<Error> left =
        leaves_steps_behind(config_, out_.note, {.commit = commit, .checkpoint = checkpoint_});
    if (left) return *std::move(left);
    return {};
  }

  Result<void> check_is_wanted() const {
    const u64 step = found_->commit.step;
    const bool wanted =
        resume_ == "auto" || out_.is_asked_for || (!begins_anew() && is_as_new(resume_, step));
    if (wanted) return {};
    if (!begins_anew() && !read_trainer_state(without_slashes(resume_))) return {};  // it will be named
    if (begins_anew())
      return usage(fmt::format("{}: resume with --resume auto, or {}", committed_text(*found_),
                               to_begin_anew(config_)));
    return usage(fmt::format("{}: resume with --resume auto, or move the file away to resume from {}",
                             committed_text(*found_), resume_));
  }

  const Config& config_;
  const ModelGraph& graph_;
  const std::string& resume_;
  const std::string path_;
  std::optional<u64> checkpoint_;  // the newest
  std::optional<FoundState> found_;
  DescribedState described_;
  FoundCommit out_;
};

}  // namespace

std::string run_name(const Config& config) { return canonical_path(config.output.dir); }

Result<FoundCommit> find_committed_run(const Job& job, const std::string& resume,
                                       const std::function<void(const std::string&)>& warn) {
  return Search(job, resume).find(warn);
}

std::optional<Error> leaves_steps_behind(const Config& config, const std::optional<BranchNote>& note,
                                         const ReachedSteps& reached) {
  // A commit that is there is the one that was begun last, or that a kill has left in its place.
  const bool leaves =
      note && (reached.commit ? note->step > reached.last() : note->is_beyond(reached.last()));
  if (!leaves) return std::nullopt;
  const std::string place = place_of(config, *note), file = swap_directory(config) + "/" + swap_file_name;
  std::error_code unknown;
  std::string there = state_of_place(place), without = way_without(config, reached.checkpoint);
  if (reached.commit) there = fmt::format("{} has step {} only", file, *reached.commit);
  if (reached.commit && *reached.commit >= reached.checkpoint.value_or(0))
    without = fmt::format("train on from step {}: --resume {}", *reached.commit, file);
  else if (reached.checkpoint && !config.memory.swap_dir.empty() &&
           !fs::is_directory(fs::path(canonical_path(config.memory.swap_dir)).parent_path(), unknown))
    without += " with another memory.swap_dir";
  return Error{ErrorKind::usage,
               fmt::format("{} of this run were committed in {}, and {}: bring the file back (mount "
                           "its disk) and resume with --resume auto{}, name its new place with "
                           "memory.swap_dir, or {}",
                           note->committed_steps(), place, there, and_there(config, place), without)};
}

}  // namespace tidepool
