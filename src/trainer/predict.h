// How long a step will take: the plan replayed in virtual time at rates measured here and now.
#pragma once

#include <string>

#include "executor/sim/sim_executor.h"
#include "trainer/session.h"

namespace tidepool {

struct Prediction {
  SimRates rates;
  double step_seconds = 0;   // of a steady body
  std::string binds;         // the lane that works longest: "compute", "disk_read", ...
};

// Measures matrix products, copies and Adam for a few milliseconds each in the session's own memory,
// and the disk, both directions at once, through its own swap file. REQUIRES: at rest, before the state
// is written: it overwrites arenas and swap file.
Result<Prediction> predict_step(Session&);

}  // namespace tidepool
