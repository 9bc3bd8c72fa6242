// Sampling says how thoroughly predict_step() measures.
#pragma once

#include "base/types.h"

namespace tidepool {

struct Sampling {
  double op_seconds = 0.025;   // in one round, of each kind of op
  double peak_seconds = 0.03;  // in one round, of the square product
  bool repeats = true;         // rounds repeat until two in a row agree; false: one round
};

// Every op runs as seldom as can be: for tests that need the ops, not the figures.
inline constexpr Sampling shortest_sampling{.op_seconds = 0, .peak_seconds = 0, .repeats = false};

}  // namespace tidepool
