// The target that adds neither loss nor gradient, as Hugging Face writes it.
#pragma once

#include "base/types.h"

namespace tidepool {

inline constexpr i32 ignored_target = -100;

}  // namespace tidepool
