// ResumePoint finds what earlier processes have left of a run, a commit in a swap file or checkpoints, and
// chooses what the run resumes from.
#pragma once

#include <optional>
#include <string>

#include "durability/durability.h"
#include "run/commits/committed_run.h"
#include "run/prepare_run.h"

namespace tidepool {

class ResumePoint {
 public:
  // REQUIRES: the run outlives this object.
  explicit ResumePoint(PreparedRun& run) : run_(run) {}

  // Looks for a commit in the swap directory. Several nodes get a checkpoint of it.
  // Errors: as find_committed_run().
  Result<void> find_commit();
  // The plan is changed: the run resumes from a commit of its own.
  void set_commit(CommittedRun);
  // True if the run resumes from the commit, unless find_checkpoint() finds a newer checkpoint.
  bool may_be_commit() const { return may_resume_from_commit(remains_); }
  // REQUIRES: the run's checkpoints are open.
  // RETURNS: the checkpoint to resume from; nullopt if the commit is newer or was named, or nothing is
  // resumed.
  Result<std::optional<FoundCheckpoint>> find_checkpoint();
  // True if the run resumes from the commit. Call after find_checkpoint() or set_commit().
  bool is_commit() const { return source_ == ResumeSource::commit; }
  // Null: none was found.
  const CommittedRun* commit() const { return committed_ ? &*committed_ : nullptr; }
  // Call when the plan is chosen. `copies`: it has other slots than the commit.
  void copies_commit(bool copies) { copies_ = copies; }
  // How the session uses the commit. Call after copies_commit() and find_checkpoint().
  SessionCommits::Mode mode() const {
    if (!is_commit()) return SessionCommits::Mode::discard;
    return copies_ ? SessionCommits::Mode::copy : SessionCommits::Mode::take_over;
  }
  // The step after which checkpoints are of another branch; nullopt: none are.
  std::optional<u64> end_of_branch() const;

  // Sets the run's branch: a run that resumes from its commit stays on it, else it begins one.
  // RETURNS: a line for people if steps are left behind; else empty.
  std::string note_branch(const std::optional<FoundCheckpoint>&);
  // Writes what is known of earlier commits to the run directory. Call before the session takes the swap
  // file: it may replace a file without a commit, which alone tells that nothing of it is missing.
  Result<void> keep_what_is_known() const;

 private:
  Result<void> save_commit_for_nodes();
  Result<void> check_reaches(const std::optional<FoundCheckpoint>&) const;

  PreparedRun& run_;
  Remains remains_;
  ResumeSource source_ = ResumeSource::nothing;
  std::optional<CommittedRun> committed_;
  bool copies_ = false;              // the plan has other slots
  std::optional<u64> left_at_;       // as FoundCommit
  std::optional<BranchNote> noted_;  // by the processes before
};

}  // namespace tidepool
