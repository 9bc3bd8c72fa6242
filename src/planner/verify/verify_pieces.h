// check_pieces() proves that the pieces of a micro-batch run in an order in which each finds what earlier
// ones hand to it.
#pragma once

#include "planner/verify/verify_streams.h"

namespace tidepool {

// Checks in the order of ops that every block's pass takes its micro-batches in order, and each piece by
// piece: forward and recall from the first piece, backward and the head from the last. For ops with a past,
// that recall of a micro-batch comes right before its backward, and that no other pass of the device comes
// between.
StreamFault check_pieces(const Plan&, const ModelGraph&, const Segment&);

}  // namespace tidepool
