// Vector loops over rows of experts.
#pragma once

#include "base/types.h"

namespace tidepool {

// y += factor * x
void add_scaled_row(float* y, const float* x, float factor, u64 n);
// y = factor * x
void scaled_row(float* y, const float* x, float factor, u64 n);

}  // namespace tidepool
