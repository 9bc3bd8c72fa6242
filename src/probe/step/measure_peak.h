// measure_peak() measures the peak to which "% of peak" in a run's report refers.
#pragma once

#include "base/result.h"
#include "probe/step/predict.h"
#include "session/session.h"

namespace tidepool {

// RETURNS: FLOP/s of a plain square product, as large as memory allows, in the precision in which the run
// computes; 0 if memory has no room for one.
// REQUIRES: at rest, before the state is written or after the last save: it overwrites arenas.
Result<double> measure_peak(Session&, const Sampling& = {});
// The same at the end of a run. RETURNS: 0 also if there is no prediction to compare it with.
double peak_at_end(Session&, const Prediction&, const Sampling& = {});

}  // namespace tidepool
