// Measures how long a sleeping thread takes to wake up: the gap between the end of an op and the begin of a
// dependent op on another lane.
#pragma once

#include "base/result.h"

namespace tidepool {

// RETURNS: the median over some hand-overs between two threads. Errors: as start_thread.
Result<double> wake_up_seconds();

}  // namespace tidepool
