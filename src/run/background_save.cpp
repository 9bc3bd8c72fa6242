#include "run/background_save.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/process/start_thread.h"
#include "base/steady_seconds.h"

namespace tidepool {

// PacedReader pauses between reads, so that reading, and writing what was read, take their share of the time.
class BackgroundSave::PacedReader final : public StateReader {
 public:
  // A short burst is free: a small state is saved at once.
  explicit PacedReader(BackgroundSave& save)
      : save_(save), last_(steady_seconds()), owed_(-burst_seconds * (1 / save.share_ - 1)) {}

  Result<void> read(u32 window, Kind kind, u64 element_begin, std::span<std::byte> out) override {
    TRY(pause());
    return save_.reader_->read(window, kind, element_begin, out);
  }

 private:
  // A pause is at most as long as a person would wait for a process to end.
  Result<void> pause() {
    constexpr double longest = 0.25;
    owed_ += (steady_seconds() - last_) * (1 / save_.share_ - 1);
    while (owed_ > 1e-3 && !save_.stop_ && save_.share_ < 1) {
      const double now = std::min(owed_, longest);
      std::this_thread::sleep_for(std::chrono::duration<double>(now));
      owed_ -= now;
    }
    last_ = steady_seconds();
    if (save_.stop_) return Error{ErrorKind::interrupted, "the save was stopped"};
    return {};
  }

  static constexpr double burst_seconds = 0.2;

  BackgroundSave& save_;
  double last_, owed_;
};

BackgroundSave::BackgroundSave(const TrainerState& state, std::unique_ptr<StateReader> reader, double share)
    : state_(state), began_(steady_seconds()), reader_(std::move(reader)), share_(share) {}

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
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

void BackgroundSave::write(CheckpointStore& store) {
  PacedReader paced(*this);
  result_ = store.save(state_, paced);
  done_ = true;
}

Result<SavedCheckpoint> BackgroundSave::take() {
  share_ = 1;
  if (thread_.joinable()) thread_.join();
  return *std::exchange(result_, std::nullopt);
}

}  // namespace tidepool
