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
  // Bytes by which the rows that tokens looked up (Lookup) differ from the most that a plan has room for:
  // known before they move. Negative: fewer.
  virtual std::array<i64, link_count> moved_by_data() const { return {}; }
  virtual Bytes moved_between_devices() const = 0;
  virtual NetBytes moved_over_network() const = 0;
  // Number of extra tries of disk transfers, those at rest included.
  virtual u64 io_retries() const = 0;
  // Highest frame end that an op used.
  virtual Bytes high_water(Tier) const = 0;
};

}  // namespace tidepool
