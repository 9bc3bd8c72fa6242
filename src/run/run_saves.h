// RunSaves decides when a run saves, and what of its progress a checkpoint gets. Where the plan keeps several
// versions of the state, checkpoints are written while the run trains on.
#pragma once

#include "run/outputs/save_moments.h"
#include "run/prepare_run.h"

namespace tidepool {

class RunSaves {
 public:
  explicit RunSaves(PreparedRun& run) : run_(run), moments_(run.config.output) {}

  // Call before the first step.
  void begin();
  // True if a save is due, by steps, time or a signal.
  bool due(u64 step) const;
  // Also true if the best evaluation is not saved: with early stopping the best step is the result.
  bool due_at_rest(u64 step) const { return due(step) || (keeps_best() && best_unsaved_); }
  void found_best() { best_unsaved_ = true; }

  // All that follows is called at rest, except end_if_done(). `step`: the last; `seconds`: training time so
  // far.
  Result<void> save(u64 step, double seconds);
  Result<void> save_last(u64 step, double seconds);
  // Records the step; with two versions it ends a save in the background first. RETURNS: false if the run
  // records nothing, or the record has no room.
  Result<bool> record(u64 step);
  // Makes sure that a step which must be trained again is found after a record of this one. Evaluations are
  // told of once, so they need it too. No-op unless updates speculate.
  Result<void> record_to_go_back_to(u64 step);
  // RETURNS: the error that ends the run.
  Error save_moved(const MovedDirectory&, u64 step, double seconds);
  // Ends a save in the background whose files are written.
  void end_if_done();
  // Ends a save in the background, and waits for it.
  void end_background();
  // Words for a second signal.
  void tell_signals() const;

 private:
  // With three versions, steps are recorded while a save reads the last record.
  bool records_wait() const { return run_.session->plan().versions < 3; }
  bool keeps_best() const { return run_.config.train.early_stopping_patience > 0; }
  TrainerState state_now(u64 step, double seconds);
  void saved(const TrainerState&);
  Result<void> save_in_background(const TrainerState&);

  PreparedRun& run_;
  SaveMoments moments_;
  bool best_unsaved_ = false;         // the best evaluation is newer than the last checkpoint
  bool background_has_best_ = false;  // and is in the checkpoint that is being written
};

}  // namespace tidepool
