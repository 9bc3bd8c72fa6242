// The moments at which a run saves: every output.save_steps, when the last try is output.save_minutes old,
// and when SIGUSR1 asks for it.
#pragma once

#include "base/types.h"
#include "config/config.h"

namespace tidepool {

// While it lives, SIGUSR1 asks for a save, and says so on stderr; before and after, it does what it did. One
// at a time.
class SaveSignal {
 public:
  // `heard`: a literal, which the handler prints.
  explicit SaveSignal(const char* heard);
  ~SaveSignal();
  SaveSignal(const SaveSignal&) = delete;

  static bool asked();
  static void forget();
};

// Times are seconds of steady_seconds().
class SaveMoments {
 public:
  explicit SaveMoments(const OutputConfig& output) : output_(output) {}

  // The first step is about to run.
  void begin(double now) { last_try_ = now; }
  // Stays true until tried(). REQUIRES: begin().
  bool due(u64 step, double now) const;
  // A save begins, whether it succeeds or not: a signal that comes from now on asks for the next one.
  void tried(double now);

 private:
  const OutputConfig& output_;
  double last_try_ = 0;
};

}  // namespace tidepool
