// What someone typed as a checkpoint.
#pragma once

#include <string>

#include "base/result.h"

namespace tidepool {

// ErrorKind::usage where `path` is no directory, or one that is neither a checkpoint nor a damaged one: a
// slip of the keyboard, and no fault of a checkpoint. The message names those that are there.
Result<void> check_named(const std::string& path);

}  // namespace tidepool
