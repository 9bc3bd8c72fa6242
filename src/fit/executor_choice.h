// Executor choice: checks that this program can train on the devices that machine.executor names, and
// resolves `auto`.
#pragma once

#include <string>

#include "config/config.h"

namespace tidepool {

// Checks that this program can train on the devices of machine.executor. Call it before anything is planned
// or allocated.
// Error: ErrorKind::usage, with advice.
Result<void> check_executor(const Config&);
// Its two halves: that these GPUs can be used here at all, and that they compute in train.precision.
Result<void> check_gpus(const Config&);
Result<void> check_precision(const Config&);
// True if the devices of machine.executor can exchange data, as data over devices needs.
bool may_exchange(const Config&);
// Resolves machine.executor=auto to cuda or cpu.
// RETURNS: a line for people, empty if it was not auto.
// Errors: as check_precision() for the chosen GPU.
Result<std::string> resolve_executor(Config&);

}  // namespace tidepool
