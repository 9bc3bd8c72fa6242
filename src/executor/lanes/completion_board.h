// CompletionBoard passes completions from lanes to the engine, and lets lanes wait for each other.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <span>
#include <vector>

#include "engine/executor.h"

namespace tidepool {

// Allocates only on errors.
// THREADS: any thread may call, except take(): the engine's thread only.
class CompletionBoard {
 public:
  // `sequences_max` bounds how far apart two sequences in progress are. `ops_max` bounds the ops in progress.
  CompletionBoard(u64 sequences_max, u32 ops_max);

  void post(u64 sequence, Nanos started, Nanos finished);
  // After this no op runs: lanes report the ops that they still hold as completed.
  void post_error(u64 sequence, Nanos started, Nanos finished, Error);
  bool failed() const;

  // Blocks until all of `sequences` have completed.
  void await(std::span<const u64> sequences);
  // Blocks until there is a completion or `patience` has passed.
  // RETURNS: completions, valid until the next take().
  std::span<const Completion> take(Nanos patience);

 private:
  void put(const Completion&);

  mutable std::mutex mutex_;
  // Two variables: a completion wakes the engine always, and the lanes only if a lane waits.
  std::condition_variable engine_, lanes_;
  u32 lanes_waiting_ = 0;
  std::vector<u64> done_;  // ring: sequence + 1
  std::vector<Completion> posted_, taken_;
  std::deque<Error> errors_;  // never removed: a run has few errors
  bool failed_ = false;
};

}  // namespace tidepool
