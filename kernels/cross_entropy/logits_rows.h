// Operations on one row of a slice of logits.
#pragma once

#include "base/types.h"

namespace tidepool {

float max_row(const float* x, u64 n);
float sum_exp_row(const float* x, float minus, u64 n);           // sum of exp(x - minus)
void scaled_exp_row(float* x, float minus, float scale, u64 n);  // x = scale exp(x - minus)

// The same sum for capped logits.
float capped_sum_exp_row(const float* x, float cap, float minus, u64 n);
// x = scale exp(capped x - minus) times the cap's derivative at x.
void capped_scaled_exp_row(float* x, float cap, float minus, float scale, u64 n);

}  // namespace tidepool
