// evaluate() computes the loss of a run's held-out rows, and logs it.
#pragma once

#include "engine/engine.h"
#include "run/prepare_run.h"

namespace tidepool {

// At rest; blocks. A no-op without held-out rows, or if the run has evaluated this step before.
// Errors: those of the engine and the transport.
Result<void> evaluate(PreparedRun&, Engine&);

}  // namespace tidepool
