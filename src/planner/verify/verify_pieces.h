// check_pieces() proves that the pieces of a micro-batch run in an order in which each finds what earlier
// ones hand to it.
#pragma once

#include "planner/verify/verify_streams.h"

namespace tidepool {

// Checks for each op with a past, in the order of ops, that a block's pass over a micro-batch is forward
// piece by piece; or recall piece by piece and then backward from the last piece to the first; and that no
// other pass of the device comes between.
StreamFault check_pieces(const Plan&, const ModelGraph&, const Segment&);

}  // namespace tidepool
