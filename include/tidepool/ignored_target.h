// Targets that add neither loss nor gradient: all negative numbers. has_loss() tells them from tokens.
#pragma once

#include "base/types.h"

namespace tidepool {

inline constexpr i32 ignored_target = -100;  // of a token without loss, as in Hugging Face libraries
// Target of a place that holds no token: padding. A router does not count it.
inline constexpr i32 padding_target = -101;

constexpr bool has_loss(i32 target) { return target >= 0; }

}  // namespace tidepool
