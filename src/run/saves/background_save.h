// BackgroundSave writes a checkpoint of the committed state while the run trains on. Its reader keeps what it
// reads from being overwritten: with two versions of the state, commits wait until it is done.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <thread>

#include "checkpoint/checkpoint.h"
#include "run/saves/state_readers.h"
#include "tidepool/state_stream.h"

namespace tidepool {

class BackgroundSave {
 public:
  // Begins to write. `share` of the time is used for it, in small pieces; the rest is left to the training.
  // REQUIRES: nobody else uses the store until the save was taken; the store outlives this object.
  // Errors: no thread can be started.
  static Result<std::unique_ptr<BackgroundSave>> begin(CheckpointStore&, const TrainerState&,
                                                       std::unique_ptr<StateReader>, double share);
  ~BackgroundSave();  // stops the save, if it is still being written; nothing of it is left behind
  BackgroundSave(const BackgroundSave&) = delete;

  bool done() const { return done_; }
  const TrainerState& state() const { return state_; }
  double began() const { return began_; }  // steady_seconds()
  // Waits for the end, without pauses from now on.
  Result<SavedCheckpoint> take();

 private:
  BackgroundSave(const TrainerState& state, std::unique_ptr<StateReader> reader, double share);
  void write(CheckpointStore&);

  const TrainerState state_;
  const double began_;
  std::unique_ptr<StateReader> reader_;
  SavePace pace_;
  std::atomic<bool> done_{false};
  std::optional<Result<SavedCheckpoint>> result_;
  std::thread thread_;
};

}  // namespace tidepool
