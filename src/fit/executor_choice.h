// Executor choice: checks that this program can train on what machine.executor names, and resolves `auto`.
#pragma once

#include <string>

#include "config/config.h"

namespace tidepool {

// Whether this program can train on what machine.executor names here: asked before anything is planned or
// taken. Error: ErrorKind::usage, with what can be done.
Result<void> check_executor(const Config&);
// Its two halves: whether such GPUs can be used here at all, and whether they compute in train.precision.
Result<void> check_gpus(const Config&);
Result<void> check_precision(const Config&);
// Of machine.executor=auto what it comes to here: cuda, or cpu. Returns a line for people, empty where it was
// not auto. Error: as check_precision, of the GPU that it comes to.
Result<std::string> resolve_executor(Config&);

}  // namespace tidepool
