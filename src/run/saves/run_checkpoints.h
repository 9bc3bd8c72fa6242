// RunCheckpoints manages the checkpoints of one run: finds the checkpoint to resume from, writes and rotates
// checkpoints, and retries or rescues a save that fails.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "fit/job.h"
#include "run/outputs/run_outputs.h"
#include "run/saves/background_save.h"

namespace tidepool {

struct MovedDirectory;  // run/directory/run_directory.h

class RunCheckpoints {
 public:
  // Removes half-written checkpoints of dead runs.
  // REQUIRES: the run directory is locked. Job and outputs outlive the result.
  static Result<std::unique_ptr<RunCheckpoints>> open(const Job&, RunOutputs&);

  // `resume`: as in TrainRequest.
  // RETURNS: the checkpoint to resume from; nullopt: begin anew.
  // Errors as of CheckpointStore's find_resumable() and open(); ErrorKind::corrupt_checkpoint if there are
  // checkpoints and none of them verifies.
  Result<std::optional<FoundCheckpoint>> find(const std::string& resume);

  // Restores the state from `found` and makes its branch the run's branch: see CheckpointStore::follow().
  // Verifies tensors while it reads them.
  // RETURNS: nullopt if restored. With --resume auto and damaged tensors: the next older checkpoint to try;
  // no branch has been changed then.
  Result<std::optional<FoundCheckpoint>> resume_from(FoundCheckpoint found, StateWriter&);

  // The run resumes from a commit. `branch_ends`: checkpoints after this step are of another branch, and are
  // set aside; nullopt: none are.
  Result<void> resumed_from_commit(u64 best_step, std::optional<u64> branch_ends);

  // Checks before the first step that output.dir can take the saves of a run from `step` up to `max_steps`.
  // Prints a warning if the next save fits and later ones do not.
  // `step_seconds`: predicted; 0: unknown.
  // ErrorKind::io if the next save does not fit, or if the file system refuses an operation that saves need.
  Result<void> check_room(u64 step, double step_seconds) const;

  // Saves a checkpoint, deletes those beyond output.save_total_limit, and points the symbolic link
  // checkpoint-best at the best one. If the disk is full, deletes the oldest checkpoint first, provided that
  // rotation would delete it after this save anyway and another checkpoint verifies.
  // RETURNS: false if the checkpoint could not be written, which is printed; training continues, and the next
  // save tries again. Error: the state itself cannot be read.
  Result<bool> save(const TrainerState&, StateReader&);
  // Begins a save of the committed state, while the run trains on. `share`: as in BackgroundSave.
  // RETURNS: false if it could not begin, which is printed.
  bool begin_save(const TrainerState&, std::unique_ptr<StateReader>, double share);
  bool background_is_done() const { return background_ && background_->done(); }
  // Waits for the save that begin_save() began, and then does as save().
  // RETURNS: the state that was saved; nullopt: it could not be written, which is printed.
  std::optional<TrainerState> end_save();
  // The last save. The state is gone after it, so a failed save is retried for output.last_save_minutes, then
  // tried in memory.swap_dir if that is on another file system.
  // ErrorKind::io if the checkpoint is not in output.dir; the message says where it is, if anywhere.
  Result<void> save_last(const TrainerState&, StateReader&);
  // Saves to a safe place after the run directory was renamed or removed.
  // RETURNS: the error that ends the run.
  Error save_moved(const MovedDirectory&, const TrainerState&, StateReader&);

  // The last checkpoint in output.dir that this process saved or resumed from; no path: there is none.
  const SavedCheckpoint& last() const { return last_; }
  // Advice for messages: "resume with --resume auto from ...", or that nothing has been saved.
  std::string resume_hint() const;
  // Advice that replaces resume_hint()'s: the state is committed elsewhere.
  void set_resume_hint(std::string hint) { hint_ = std::move(hint); }
  // Bytes that this process has written.
  Bytes written() const { return written_; }

 private:
  RunCheckpoints(const Job& job, RunOutputs& outputs)
      : config_(job.config), graph_(job.graph), outputs_(outputs) {}
  using Refusal = std::optional<std::string>;  // nullopt: the checkpoint was written
  Result<Refusal> attempt(const TrainerState&, StateReader&);
  void accept(const SavedCheckpoint&, const TrainerState&, double began);
  bool make_room(u64 step);
  Result<SavedCheckpoint> save_in(const std::string& dir, const TrainerState&, StateReader&);
  Error rescue(const std::string& why, const TrainerState&, StateReader&);
  u64 saves_to_come(u64 step, double step_seconds) const;
  void point_at_best(u64 step);
  Result<SavedCheckpoint> mend_and_save(const TrainerState&, StateReader&);
  Result<std::optional<FoundCheckpoint>> find_automatically();
  void step_over(const SteppedOver&);
  void say_set_aside(const std::vector<std::string>& paths, u64 step);
  std::vector<std::string> distrusted() const;

  const Config& config_;
  const ModelGraph& graph_;
  RunOutputs& outputs_;
  CheckpointOptions options_;
  std::unique_ptr<CheckpointStore> store_;
  std::vector<SteppedOver> stepped_over_;
  bool automatic_ = false;  // --resume auto
  SavedCheckpoint last_;
  u64 best_step_ = 0;  // among the checkpoints on disk
  Bytes written_{};
  std::string hint_;
  std::unique_ptr<BackgroundSave> background_;
};

}  // namespace tidepool
