// ExecutorCounters counts the work of an executor since it was made, for reports.
#pragma once

#include <array>

#include "tidepool/plan.h"

namespace tidepool {

// THREADS: the engine's thread.
class ExecutorCounters {
 public:
  virtual ~ExecutorCounters() = default;

  // Useful bytes really copied, read and written so far; the second function counts bytes between devices.
  virtual std::array<Bytes, link_count> moved() const = 0;
  virtual Bytes moved_between_devices() const = 0;
  virtual NetBytes moved_over_network() const = 0;
  // Number of extra tries of disk transfers, those at rest included.
  virtual u64 io_retries() const = 0;
  // Highest frame end that an op used.
  virtual Bytes high_water(Tier) const = 0;
};

}  // namespace tidepool
