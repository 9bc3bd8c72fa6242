// leave_now() ends the process when an op, a thread or the disk hangs.
#pragma once

#include "base/result.h"

namespace tidepool {

// Prints the error as the command line would, and ends the process with the error's exit code. Runs no
// destructor, so nothing waits for the disk or thread that hangs. Files that a resume needs stay; the
// operating system releases the locks, and the next run clears the swap file.
[[noreturn]] void leave_now(const Error&);

}  // namespace tidepool
