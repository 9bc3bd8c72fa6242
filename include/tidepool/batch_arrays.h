// BatchArrays holds the arrays of one micro-batch.
#pragma once

#include <algorithm>
#include <span>

#include "base/types.h"
#include "tidepool/ignored_target.h"

namespace tidepool {

// Every array is [B, T]; the caller fills it. Empty places of a batch have token 0 and padding_target.
struct BatchArrays {
  std::span<i32> tokens;
  std::span<i32> targets;  // ignored_target, padding_target: no loss and no gradient
  // Packed documents only (BatchShape::packed), else empty: the place in the sequence where the token's
  // document begins. 0 0 0 3 3 3 are two documents of three tokens; a sequence of one document is all zeros.
  // Attention sees places starts[t] .. t, and the position of a token is t - starts[t].
  // REQUIRES: starts[t] <= t.
  std::span<i32> starts;
};

// Makes places empty: no tokens. Leaves `starts` alone.
inline void make_empty(const BatchArrays& places) {
  std::ranges::fill(places.tokens, 0);
  std::ranges::fill(places.targets, padding_target);
}

}  // namespace tidepool
