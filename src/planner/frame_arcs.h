// Who lies where from when to when, read off a finished plan: what --explain tells of, what the page draws
// as memory over the step, and what the live view sums up.
#pragma once

#include <vector>

#include "tidepool/plan.h"

namespace tidepool {

// One chunk in one frame, from the op that fills it to the last op that touches it.
struct FrameArc {
  ChunkId chunk{};
  Tier tier{};
  u16 device = 0;
  u64 offset = 0;
  u32 from = none;  // ops of the segment; `from` > `to`: filled in the turn before
  u32 to = none;
  bool operator==(const FrameArc&) const = default;

  bool permanent() const {
    return from == none;
  }  // a home held all around, or content that is never filled anew
};

// Of a segment that repeats. Sorted by chunk, then tier, device, offset and op.
std::vector<FrameArc> frame_arcs(const Plan&, const Segment&);

}  // namespace tidepool
