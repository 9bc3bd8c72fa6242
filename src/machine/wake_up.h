// How long it takes to wake a sleeping thread: what lies between the end of an op and the begin of one on
// another lane that waits for it.
#pragma once

#include "base/result.h"

namespace tidepool {

// Median over some hand-overs between two threads. Errors: as of start_thread.
Result<double> wake_up_seconds();

}  // namespace tidepool
