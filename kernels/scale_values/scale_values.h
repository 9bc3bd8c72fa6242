// Multiplies values by a parameter of one element: the output of a Gemma 4 layer, and its gradient.
#pragma once

#include "kernels/values.h"

namespace tidepool {

// x *= factor[0], in place.
struct ScaleValues {
  u64 elements = 0;
  Param factor;  // [1]
  Values x;      // [elements]
};

}  // namespace tidepool
