// RunSaves makes the saves of a run when they are due, at rest or while the run trains on, as the run's
// durability allows.
#pragma once

#include <memory>

#include "probe/step/predict.h"
#include "run/commits/run_commits.h"
#include "run/saves/run_checkpoints.h"
#include "run/saves/save_moments.h"

namespace tidepool {

// Parts of a run, which outlive RunSaves. The pointers are set once it begins; a change of plan replaces the
// session.
struct SavedParts {
  const Job& job;
  const Prediction& prediction;
  RunDurability& durability;
  RunCommits& commits;
  TrainerState& state;
  std::unique_ptr<Session>& session;
  std::unique_ptr<RunCheckpoints>& checkpoints;
};

class RunSaves {
 public:
  explicit RunSaves(const SavedParts& run) : run_(run), moments_(run.job.config.output) {}

  // Call before the first step.
  void begin();
  // True if a save is due, by steps, time or a signal.
  bool due(u64 step) const;
  // Also true if the best evaluation is not saved: with early stopping the best step is the result.
  bool due_at_rest(u64 step) const { return due(step) || (keeps_best() && now().best_unsaved); }

  // All that follows is called at rest, except end_if_done(). `seconds`: training time so far.
  Result<void> save(double seconds);
  Result<void> save_last(double seconds);
  // Commits the step; with two versions it ends a save in the background first. RETURNS: false if the run
  // commits nothing, or the commit has no room.
  Result<bool> commit();
  // Makes sure that replay finds a commit of this step. Evaluations are logged once, so they need it too.
  // No-op unless updates speculate.
  Result<void> commit_to_replay_from();
  // RETURNS: the error that ends the run.
  Error save_moved(const MovedDirectory&, double seconds);
  // Ends a save in the background whose files are written.
  void end_if_done();
  // Ends a save in the background, and waits for it.
  void end_background();
  // Words for a second signal.
  void tell_signals() const;

 private:
  const Durability& now() const { return run_.durability.state(); }
  bool keeps_best() const { return run_.job.config.train.early_stopping_patience > 0; }
  TrainerState state_now(double seconds);
  void succeeded(const TrainerState&);
  Result<void> save_in_background(const TrainerState&);

  SavedParts run_;
  SaveMoments moments_;
};

}  // namespace tidepool
