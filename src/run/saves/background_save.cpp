#include "run/saves/background_save.h"

#include <utility>

#include "base/process/start_thread.h"
#include "base/steady_seconds.h"

namespace tidepool {

BackgroundSave::BackgroundSave(const TrainerState& state, std::unique_ptr<StateReader> reader, double share)
    : state_(state), began_(steady_seconds()), reader_(std::move(reader)), pace_{.share = share} {}

Result<std::unique_ptr<BackgroundSave>> BackgroundSave::begin(CheckpointStore& store,
                                                              const TrainerState& state,
                                                              std::unique_ptr<StateReader> reader,
                                                              double share) {
  std::unique_ptr<BackgroundSave> save(new BackgroundSave(state, std::move(reader), share));
  BackgroundSave* raw = save.get();
  TRY_ASSIGN(save->thread_, start_thread("tp-save", [raw, &store] { raw->write(store); }));
  return save;
}

BackgroundSave::~BackgroundSave() {
  pace_.stop = true;
  if (thread_.joinable()) thread_.join();
}

void BackgroundSave::write(CheckpointStore& store) {
  PacedReader paced(*reader_, pace_);
  result_ = store.save(state_, paced);
  done_ = true;
}

Result<SavedCheckpoint> BackgroundSave::take() {
  pace_.share = 1;
  if (thread_.joinable()) thread_.join();
  return *std::exchange(result_, std::nullopt);
}

}  // namespace tidepool
