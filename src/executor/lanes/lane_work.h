// LaneWork runs the ops of an ordered lane. ExecutorClock stamps their completions.
#pragma once

#include <chrono>

#include "engine/executor.h"

namespace tidepool {

class LaneWork {
 public:
  virtual ~LaneWork() = default;
  // Runs one op of an ordered lane to its end.
  // THREADS: called by one thread per lane; the plan's edges order data that ops of different lanes share.
  virtual Result<void> run(const Issue&) = 0;
};

// Time since the executor was made.
class ExecutorClock {
 public:
  Nanos now() const { return Nanos{static_cast<u64>((std::chrono::steady_clock::now() - origin_).count())}; }

 private:
  const std::chrono::steady_clock::time_point origin_ = std::chrono::steady_clock::now();
};

}  // namespace tidepool
