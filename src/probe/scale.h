// Scaling in place, x *= c: the simplest pass over memory that reads and writes every byte.
#pragma once

#include "base/types.h"

namespace tidepool {

void scale_floats(float* x, u64 n, float c);
void scale_halves(u16* x, u64 n, u16 c);  // as integers: halves of a bf16 master are not floats

}  // namespace tidepool
