// Checks rows that are looked up (Lookup).
#pragma once

#include <string>

#include "tidepool/model_graph.h"
#include "tidepool/plan.h"

namespace tidepool {

// Checks that the table is frozen and no block but the embedding reads it, that no op touches its chunks, and
// that the embedding finds the rows of its own micro-batch, made since the last micro-batch that had the same
// chunk.
// RETURNS: what is wrong; empty: nothing.
std::string wrong_with_lookup(const Plan&, const ModelGraph&);

}  // namespace tidepool
