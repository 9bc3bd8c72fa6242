// Readers of the training state that pass reads on to another reader, and add one thing. All readers and what
// they add are listed in docs/architecture/running.md, "Readers of the state".
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "base/steady_seconds.h"
#include "tidepool/state_stream.h"

namespace tidepool {

// WatchedReader distinguishes faults of the state, after which training cannot continue, from faults of the
// place where the state is saved.
class WatchedReader final : public StateReader {
 public:
  explicit WatchedReader(StateReader& reader) : reader_(reader) {}
  Result<void> read(u32 window, Kind kind, u64 element_begin, std::span<std::byte> out) override {
    Result<void> read = reader_.read(window, kind, element_begin, out);
    if (!read) failed_ = true;
    return read;
  }
  bool failed() const { return failed_; }

 private:
  StateReader& reader_;
  bool failed_ = false;
};

// THREADS: any may set it.
struct SavePace {
  std::atomic<double> share;  // of the time; 1: without pauses
  std::atomic<bool> stop{false};
};

// PacedReader pauses between reads, so that reading, and writing what was read, take their share of the time.
class PacedReader final : public StateReader {
 public:
  // A short burst is free: a small state is saved at once.
  PacedReader(StateReader& reader, SavePace& pace)
      : reader_(reader), pace_(pace), last_(steady_seconds()), owed_(-burst_seconds * (1 / pace.share - 1)) {}

  Result<void> read(u32 window, Kind kind, u64 element_begin, std::span<std::byte> out) override {
    TRY(pause());
    return reader_.read(window, kind, element_begin, out);
  }

 private:
  // A pause is at most as long as a person would wait for a process to end.
  Result<void> pause() {
    constexpr double longest = 0.25;
    owed_ += (steady_seconds() - last_) * (1 / pace_.share - 1);
    while (owed_ > 1e-3 && !pace_.stop && pace_.share < 1) {
      const double now = std::min(owed_, longest);
      std::this_thread::sleep_for(std::chrono::duration<double>(now));
      owed_ -= now;
    }
    last_ = steady_seconds();
    if (pace_.stop) return Error{ErrorKind::interrupted, "the save was stopped"};
    return {};
  }

  static constexpr double burst_seconds = 0.2;

  StateReader& reader_;
  SavePace& pace_;
  double last_, owed_;
};

}  // namespace tidepool
