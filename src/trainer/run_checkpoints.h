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

  // `resume` as in TrainRequest. Nothing: begin anew. Errors as of CheckpointStore's find_resumable and open.
  Result<std::optional<FoundCheckpoint>> find(const std::string& resume);
  Result<void> restore(const FoundCheckpoint& found, StateWriter& writer) { return store_->restore(found, writer); }

  // Saves, and deletes what output.save_total_limit has no room for.
  Result<void> save(const TrainerState&, StateReader&);
  // By this process: the last one and its step, and the bytes of all.
  const SavedCheckpoint& last() const { return last_; }
  std::optional<u64> last_step() const { return last_step_; }
  Bytes written() const { return written_; }

 private:
  RunCheckpoints(const Config& config, RunOutputs& outputs) : config_(config), outputs_(outputs) {}

  const Config& config_;
  RunOutputs& outputs_;
  std::unique_ptr<CheckpointStore> store_;
  std::vector<std::string> distrusted_;
  SavedCheckpoint last_;
  std::optional<u64> last_step_;
  Bytes written_{};
};

}  // namespace tidepool
