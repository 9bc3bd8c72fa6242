// check_streams() proves that every block finds in its streams what the blocks before it left there.
#pragma once

#include "base/result.h"
#include "tidepool/model_graph.h"
#include "tidepool/plan.h"

namespace tidepool {

// Checks for each forward, recall and backward op of a segment, in the order of ops:
//  - its stream operands are the streams that its block declares, for its own micro-batch, with the declared
//    access;
//  - content that it reads was left by the block that the graph says, in the same micro-batch, and is the
//    newest.
// RETURNS: an empty text, or the fault and `op`, the op that has it.
struct StreamFault {
  std::string text;
  u32 op = none;
};
StreamFault check_streams(const Plan&, const ModelGraph&, const Segment&);

}  // namespace tidepool
