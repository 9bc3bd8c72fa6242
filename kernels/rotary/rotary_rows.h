// Rotates one head of one row.
#pragma once

#include "base/types.h"

namespace tidepool {

// Pair i is x[i], x[i + half]: y[i] = x[i] cosine[i] - x[i + half] sine[i],
// y[i + half] = x[i + half] cosine[i] + x[i] sine[i]. y may be x.
void rotate_row(const float* x, const float* cosine, const float* sine, float* y, u64 half);

}  // namespace tidepool
