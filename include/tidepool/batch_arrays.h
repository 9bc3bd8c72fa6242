// What a micro-batch consists of.
#pragma once

#include <span>

#include "base/types.h"

namespace tidepool {

// Each is [B, T], and to be filled. Places of a batch that hold nothing have token 0 and an ignored target.
struct BatchArrays {
  std::span<i32> tokens;
  std::span<i32> targets;  // ignored_target: neither loss nor gradient
  // Of packed documents (BatchShape::packed), else empty: which place of its sequence the document of a token
  // begins at. 0 0 0 3 3 3 are two documents of three tokens; a sequence that is one document is all zeros.
  // Attention sees places starts[t] .. t, and the position of a token is t - starts[t]. REQUIRES: starts[t]
  // <= t.
  std::span<i32> starts;
};

}  // namespace tidepool
