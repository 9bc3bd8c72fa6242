// Makes numbers for measurements.
#pragma once

#include <span>

#include "tidepool/chunk.h"

namespace tidepool {

// Fills an array with uniform numbers in [-scale, scale), typical of operands of products. A GPU that
// multiplies constants draws less power, and so runs faster, than a GPU at work. The same numbers every time.
void make_uniform(std::span<std::byte> out, Precision, float scale);

}  // namespace tidepool
