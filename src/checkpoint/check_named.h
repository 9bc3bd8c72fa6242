// Checks a checkpoint's path that a user typed.
#pragma once

#include <string>

#include "base/result.h"

namespace tidepool {

// Error: usage if `path` is not a directory, or neither a checkpoint nor a damaged one: this is a typing
// error, not a damaged checkpoint. The message names the checkpoints that exist.
Result<void> check_named(const std::string& path);

}  // namespace tidepool
