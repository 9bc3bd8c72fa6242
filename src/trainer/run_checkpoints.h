// The checkpoints of one run: which to go on from, when they are written, which stay.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "config/config.h"
#include "trainer/run_outputs.h"

namespace tidepool {

class RunCheckpoints {
 public:
  // Clears what dead runs left half-written. REQUIRES: the run directory is locked. Config, graph and outputs
  // must outlive it.
  static Result<std::unique_ptr<RunCheckpoints>> open(const Config&, const ModelGraph&, RunOutputs&);

  // `resume` as in TrainRequest. Nothing: begin anew. Errors as of CheckpointStore's find_resumable and open,
  // and ErrorKind::corrupt_checkpoint where there are checkpoints and none of them verifies.
  Result<std::optional<FoundCheckpoint>> find(const std::string& resume);

  // The state, and the run goes on from there: see CheckpointStore::follow.
  Result<void> go_on_from(FoundCheckpoint found, StateWriter&);

  // Before the first step: whether output.dir takes what a run up to `max_steps` from `step` will save. An
  // error (ErrorKind::io) where not even the next one fits; a line where the later ones do not.
  Result<void> check_room(u64 step) const;

  // Saves, deletes what output.save_total_limit has no room for, and lets checkpoint-best, a symbolic link,
  // name the best.
  Result<void> save(const TrainerState&, StateReader&);

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
  u64 saves_to_come(u64 step) const;
  void point_at_best(u64 step);

  const Config& config_;
  const ModelGraph& graph_;
  RunOutputs& outputs_;
  std::unique_ptr<CheckpointStore> store_;
  std::vector<std::string> distrusted_;
  SavedCheckpoint last_;
  std::optional<u64> last_step_;
  Bytes written_{};
};

}  // namespace tidepool
