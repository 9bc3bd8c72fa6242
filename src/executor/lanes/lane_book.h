// LaneBook counts the ops that each lane holds, and the highest frame ends.
// THREADS: the engine's thread only.
#pragma once

#include <vector>

#include "engine/executor.h"
#include "executor/lanes/tier_memory.h"

namespace tidepool {

// RETURNS: the most sequences in progress. At most two runs of segments are alive.
u64 sequences_max(const Plan&);

class LaneBook {
 public:
  // `ordered_depth`, `disk_depth`: most ops that an ordered lane, or a lane of disk or network, holds.
  LaneBook(const Plan&, u32 ordered_depth, u32 disk_depth);

  // Lane numbers: host, comm, disk_read, disk_write, net_send, net_receive, then three per device.
  u32 lanes() const { return static_cast<u32>(held_.size()); }
  u32 number(LaneId) const;
  // RETURNS: the most ops in progress at once.
  u32 ops_max() const;

  u32 slots_free(LaneId) const;
  void submitted(const Issue&);  // REQUIRES: slots_free(lane) > 0
  void completed(std::span<const Completion>);
  bool busy() const;
  Bytes high_water(Tier tier) const { return high_water_.of(tier); }

 private:
  const u32 devices_, ordered_depth_, disk_depth_;
  HighWater high_water_;
  std::vector<u32> held_;              // by lane number: ops submitted and not yet completed
  std::vector<u32> lane_by_sequence_;  // ring
};

}  // namespace tidepool
