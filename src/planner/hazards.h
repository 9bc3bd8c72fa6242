// add_edges() makes edges from frames: read after write, write after read, write after write. Nothing else
// orders ops of different lanes, so an edge exists exactly where two ops touch the same bytes.
#pragma once

#include "tidepool/plan.h"

namespace tidepool {

// Fills the segments' deps and plan.links.
void add_edges(Plan& plan);

}  // namespace tidepool
