// BatchArrays holds the arrays of one micro-batch.
#pragma once

#include <span>

#include "base/types.h"

namespace tidepool {

// Every array is [B, T]; the caller fills it. Unused places of a batch have token 0 and an ignored target.
struct BatchArrays {
  std::span<i32> tokens;
  std::span<i32> targets;  // ignored_target: no loss and no gradient
  // Packed documents only (BatchShape::packed), else empty: the place in the sequence where the token's
  // document begins. 0 0 0 3 3 3 are two documents of three tokens; a sequence of one document is all zeros.
  // Attention sees places starts[t] .. t, and the position of a token is t - starts[t].
  // REQUIRES: starts[t] <= t.
  std::span<i32> starts;
};

}  // namespace tidepool
