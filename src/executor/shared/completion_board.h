// Where lanes post completions, wait for each other, and the engine collects.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <span>
#include <vector>

#include "engine/executor.h"

namespace tidepool {

// Any thread may call, except take(): the engine's thread only. Allocates on errors only.
class CompletionBoard {
 public:
  // `sequences_max`: a bound on how far apart two sequences in progress are. `ops_max`: on ops in progress.
  CompletionBoard(u64 sequences_max, u32 ops_max);

  void post(u64 sequence, Nanos started, Nanos finished);
  // From now on no op runs: lanes pass on what they still hold as completed.
  void post_error(u64 sequence, Nanos started, Nanos finished, Error);
  bool failed() const;

  // Blocks until all of `sequences` have completed.
  void await(std::span<const u64> sequences);
  // Blocks until there is a completion or patience ends. Valid until the next take().
  std::span<const Completion> take(Nanos patience);

 private:
  void put(const Completion&);

  mutable std::mutex mutex_;
  // Apart, so that a completion wakes the engine and, only when one waits, the lanes.
  std::condition_variable engine_, lanes_;
  u32 lanes_waiting_ = 0;
  std::vector<u64> done_;  // ring: sequence + 1
  std::vector<Completion> posted_, taken_;
  std::deque<Error> errors_;  // kept: a run has few
  bool failed_ = false;
};

}  // namespace tidepool
