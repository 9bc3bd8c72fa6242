// frame_arcs() lists which chunk lies in which frame from which op to which, read from a finished plan.
// --explain, the memory chart of the report's page, and the live view use it.
#pragma once

#include <vector>

#include "tidepool/plan.h"

namespace tidepool {

// FrameArc is one chunk in one frame, from the op that fills it to the last op that touches it.
struct FrameArc {
  ChunkId chunk{};
  Tier tier{};
  u16 device = 0;
  u64 offset = 0;
  u32 from = none;  // ops of the segment; `from` > `to`: filled in the turn before
  u32 to = none;
  bool operator==(const FrameArc&) const = default;

  // A home held all around, or content that is never filled anew.
  bool permanent() const { return from == none; }
};

// For a segment that repeats. Sorted by chunk, then tier, device, offset and op.
std::vector<FrameArc> frame_arcs(const Plan&, const Segment&);

}  // namespace tidepool
