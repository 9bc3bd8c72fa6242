// What "% of peak" in a run's report is a percentage of.
#pragma once

#include "base/result.h"
#include "session/session.h"

namespace tidepool {

// FLOP/s of a plain square product, as large as memory has room for, in what the run computes in; 0 where
// there is none. REQUIRES: at rest, before the state is written or after the
// last save: it overwrites arenas.
Result<double> measure_peak(Session&);

}  // namespace tidepool
