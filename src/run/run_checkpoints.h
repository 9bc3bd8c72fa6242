// The checkpoints of one run: which to resume from, how they are written, which stay, and what becomes of a
// training whose checkpoint cannot be written.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "config/config.h"
#include "run/outputs/run_outputs.h"

namespace tidepool {

struct MovedDirectory;  // run/run_directory.h

class RunCheckpoints {
 public:
  // Clears what dead runs left half-written. REQUIRES: the run directory is locked. Config, graph and outputs
  // must outlive it.
  static Result<std::unique_ptr<RunCheckpoints>> open(const Config&, const ModelGraph&, RunOutputs&);

  // `resume` as in TrainRequest. Nothing: begin anew. Errors as of CheckpointStore's find_resumable and open,
  // and ErrorKind::corrupt_checkpoint where there are checkpoints and none of them verifies.
  Result<std::optional<FoundCheckpoint>> find(const std::string& resume);

  // The state, and the run goes on from there: see CheckpointStore::follow. Its tensors are verified as they
  // are read; where they turn out to be damaged, with --resume auto, this returns the next older checkpoint
  // to try, and nothing has been gone on from. Nothing: done.
  Result<std::optional<FoundCheckpoint>> go_on_from(FoundCheckpoint found, StateWriter&);

  // Before the first step: whether output.dir takes what a run up to `max_steps` from `step` will save. An
  // error (ErrorKind::io) where not even the next one fits, or where the file system refuses an operation
  // that saves need; a line where the later ones do not fit. `step_seconds`: predicted; 0: not known.
  Result<void> check_room(u64 step, double step_seconds) const;

  // Saves, deletes what output.save_total_limit has no room for, and lets checkpoint-best, a symbolic link,
  // name the best. Where there is no room, the oldest goes first, if it would go after the save anyway and
  // another one verifies. False: it could not be written, which is told: the run goes on, and the next save
  // tries again. Error: the state itself cannot be read.
  Result<bool> save(const TrainerState&, StateReader&);
  // After it the state is gone: so it is tried again for output.last_save_minutes, and then in
  // memory.swap_dir if that is another file system. ErrorKind::io where it is not in output.dir, saying where
  // it is, if anywhere.
  Result<void> save_last(const TrainerState&, StateReader&);
  // The run directory was renamed or removed: saves where that is safe. RETURNS: the error that ends the run.
  Error save_moved(const MovedDirectory&, const TrainerState&, StateReader&);

  // The last one: saved by this process, or gone on from. Nothing: output.dir holds none of this run.
  const SavedCheckpoint& last() const { return last_; }
  std::optional<u64> last_step() const { return last_step_; }
  // For messages: "continue with --resume auto from ...", or that nothing has been saved.
  std::string way_on() const;
  // By this process.
  Bytes written() const { return written_; }

 private:
  RunCheckpoints(const Config& config, const ModelGraph& graph, RunOutputs& outputs)
      : config_(config), graph_(graph), outputs_(outputs) {}
  using Refusal = std::optional<std::string>;  // nothing: it was written
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
  std::vector<std::string> distrusted() const;

  const Config& config_;
  const ModelGraph& graph_;
  RunOutputs& outputs_;
  CheckpointOptions options_;
  std::unique_ptr<CheckpointStore> store_;
  std::vector<SteppedOver> stepped_over_;
  bool automatic_ = false;  // --resume auto
  SavedCheckpoint last_;
  std::optional<u64> last_step_;
  u64 best_step_ = 0;  // of the checkpoints that are there
  Bytes written_{};
};

}  // namespace tidepool
