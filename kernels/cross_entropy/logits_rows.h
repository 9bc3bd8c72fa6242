// Operations on one row of a slice of logits.
#pragma once

#include "base/types.h"

namespace tidepool {

float max_row(const float* x, u64 n);
float sum_exp_row(const float* x, float minus, u64 n);  // sum of exp(x - minus)
float sum_row(const float* x, u64 n);
// x = scale exp(x - minus) - less
void scaled_exp_row(float* x, float minus, float scale, float less, u64 n);

// The same sums for capped logits.
float capped_sum_exp_row(const float* x, float cap, float minus, u64 n);
float capped_sum_row(const float* x, float cap, u64 n);
// x = (scale exp(capped x - minus) - less) times the cap's derivative at x.
void capped_scaled_exp_row(float* x, float cap, float minus, float scale, float less, u64 n);

}  // namespace tidepool
