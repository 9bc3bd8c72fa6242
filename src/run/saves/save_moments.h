// SaveMoments decides when a run saves: every output.save_steps, output.save_minutes after the last attempt,
// and on SIGUSR1.
#pragma once

#include "base/types.h"
#include "config/config.h"

namespace tidepool {

// SaveSignal handles SIGUSR1 while it lives: requests a save and prints a message to stderr. Restores the
// previous handler at the end.
// REQUIRES: at most one object at a time.
class SaveSignal {
 public:
  // From here on SIGUSR1 does not end the process, whichever command it runs; the next object takes a request
  // that comes before it. No-op if the signal is ignored or handled already. Call as early as possible.
  static void hear_early();
  // RETURNS: the message, where output.save is `saves`.
  static const char* words(bool saves);
  // `heard`: the message; a literal, because the signal handler prints it.
  explicit SaveSignal(const char* heard);
  ~SaveSignal();
  SaveSignal(const SaveSignal&) = delete;

  static bool asked();
  static void forget();
};

// SaveMoments takes times in seconds of steady_seconds().
class SaveMoments {
 public:
  explicit SaveMoments(const OutputConfig& output) : output_(output) {}

  // Call before the first step.
  void begin(double now) { last_try_ = now; }
  // RETURNS: true if a save is due; stays true until tried().
  // REQUIRES: begin() was called.
  bool due(u64 step, double now) const;
  // Call when a save begins, whether it succeeds or not: a later signal requests another save.
  void tried(double now);

 private:
  const OutputConfig& output_;
  double last_try_ = 0;
};

}  // namespace tidepool
