// move_host_chunks() makes the moves between device, host and disk, once all stays in the host are placed.
#pragma once

#include <vector>

#include "planner/host_chains.h"

namespace tidepool {

// HostGroup is a run of uses during which the chunk stays in the host.
struct HostGroup {
  Arc arc;
  u64 first = 0, last = 0;  // uses, unrolled
  i32 shift = 0;            // added to positions to bring the arc onto the circle
  bool read = false;        // begins with a read from disk; if its update makes the chunk, only from rest
};

// Position of a use, counted from the begin of this turn.
i32 position_of(const HostChain&, u64 unrolled, i32 turn);

struct PlacedGroup {
  const HostChain* chain = nullptr;
  HostGroup group;
  u32 arc = 0;  // in HostTier::arcs
};

// Fills in movements, homes and disk_bytes of `tier`.
// REQUIRES: its arcs are placed, and home_arcs is known.
void move_host_chunks(const ResidenceInput&, const DeviceTier&, const std::vector<PlacedGroup>&,
                      HostTier& tier);

}  // namespace tidepool
