// ignored_target is the target that adds neither loss nor gradient, as in Hugging Face libraries.
#pragma once

#include "base/types.h"

namespace tidepool {

inline constexpr i32 ignored_target = -100;

}  // namespace tidepool
