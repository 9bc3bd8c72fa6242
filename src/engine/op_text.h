// describe() puts ops into words, for messages and traces.
#pragma once

#include <string>

#include "tidepool/plan.h"

namespace tidepool {

// "forward block 3 micro-batch 0", "update window 2 cut 1", "copy param window 2 cut 1".
std::string describe(const Plan&, const Segment&, const Op&);
// "param window 2 cut 1", "activation block 3 #0".
std::string describe(const Plan&, ChunkId);
// "device 0 compute", "disk_read".
std::string describe(LaneId);

}  // namespace tidepool
