// Numbers to measure with.
#pragma once

#include <span>

#include "tidepool/chunk.h"

namespace tidepool {

// Fills an array with numbers as products meet them, in [-scale, scale): a GPU that multiplies constants
// draws less power, and so runs faster, than one at work. The same every time.
void make_uniform(std::span<std::byte> out, Precision, float scale);

}  // namespace tidepool
