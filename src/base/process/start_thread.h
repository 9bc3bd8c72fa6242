// start_thread() is the one place where threads are started. If a limit on threads binds, the error names it.
// New threads have signals blocked: signals come to the threads that start others.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "base/result.h"

namespace tidepool {

// `name`: for debuggers and top; at most 15 characters.
// Errors: ErrorKind::does_not_fit.
Result<std::thread> start_thread(const std::string& name, std::function<void()> body);

}  // namespace tidepool
