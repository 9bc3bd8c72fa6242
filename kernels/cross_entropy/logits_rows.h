// Operations on one row of a slice of logits.
#pragma once

#include "kernels/cross_entropy/cross_entropy.h"

namespace tidepool {

float max_row(const float* x, u64 n);
float sum_exp_row(const float* x, float minus, u64 n);  // sum of exp(x - minus)
// x = scale exp(x - minus) - less
void scaled_exp_row(float* x, float minus, float scale, float less, u64 n);

// `maximum`: of the row so far, these columns included. `cap`: 0 for none.
LogitSums logit_sums_of_row(const float* x, float cap, float maximum, u64 n);

// The same for capped logits.
float capped_sum_exp_row(const float* x, float cap, float minus, u64 n);
// x = (scale exp(capped x - minus) - less) times the cap's derivative at x.
void capped_scaled_exp_row(float* x, float cap, float minus, float scale, float less, u64 n);

}  // namespace tidepool
