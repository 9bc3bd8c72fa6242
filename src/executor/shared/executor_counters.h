// Counters of an executor since it was made: for reports.
#pragma once

#include <array>

#include "tidepool/plan.h"

namespace tidepool {

// THREADS: the engine's.
class ExecutorCounters {
 public:
  virtual ~ExecutorCounters() = default;

  // Useful bytes so far, by what was really copied, read and written; the same between devices.
  virtual std::array<Bytes, link_count> moved() const = 0;
  virtual Bytes moved_between_devices() const = 0;
  // Disk transfers, those at rest included, that took more than one go.
  virtual u64 io_retries() const = 0;
  // Highest frame end that an op used.
  virtual Bytes high_water(Tier) const = 0;
};

}  // namespace tidepool
