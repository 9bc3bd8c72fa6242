// The way out where something never comes back.
#pragma once

#include "base/result.h"

namespace tidepool {

// Prints the error as the command line would, and ends the process with its exit code: no destructor runs,
// so nothing waits for the disk or a thread that hangs. What a resume needs stays; the locks go with the
// process, and the next run clears the swap file.
[[noreturn]] void leave_now(const Error&);

}  // namespace tidepool
