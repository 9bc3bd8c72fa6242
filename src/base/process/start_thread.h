// The one place where threads are started: a limit on them is an error that names it. Signals come to the
// threads that start others, and not to those.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "base/result.h"

namespace tidepool {

// `name`: for debuggers and top; at most 15 characters. Errors: ErrorKind::does_not_fit.
Result<std::thread> start_thread(const std::string& name, std::function<void()> body);

}  // namespace tidepool
