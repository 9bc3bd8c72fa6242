// What moves between device, host and disk, once every chunk's stays in the host have their places.
#pragma once

#include <vector>

#include "planner/host_chains.h"

namespace tidepool {

// A run of uses with the chunk in the host throughout.
struct HostGroup {
  Arc arc;
  u64 first = 0, last = 0;  // uses, unrolled
  i32 shift = 0;            // added to positions to bring the arc onto the circle
  bool read = false;        // begins with a read from disk; if its update makes it, from rest only
};

// Where use i lies, counted from this turn's begin.
i32 position_of(const HostChain&, u64 unrolled, i32 turn);

struct PlacedGroup {
  const HostChain* chain = nullptr;
  HostGroup group;
  u32 arc = 0;  // in HostTier::arcs
};

// Fills in `tier`'s movements, homes and disk_bytes. REQUIRES: its arcs are placed, home_arcs are known.
void move_host_chunks(const ResidenceInput&, const DeviceTier&, const std::vector<PlacedGroup>&,
                      HostTier& tier);

}  // namespace tidepool
