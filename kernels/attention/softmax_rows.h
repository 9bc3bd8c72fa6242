// Softmax of one row of a block of scores.
#pragma once

#include "base/types.h"

namespace tidepool {

// Running maximum of scaled scores, and running sum of exp(score - maximum).
struct OnlineSoftmax {
  float maximum;
  float sum;
};

// s = exp(scale s - maximum), with the maximum raised to cover this block.
// RETURNS: the factor by which all earlier sums must be scaled.
float softmax_row(float* s, u64 n, float scale, OnlineSoftmax&);

// p = exp(scale s - lse) in place of s; ds = scale p (dp - delta) in place of dp. With a cap, scores count as
// s' = raw_cap tanh(s / raw_cap): p = exp(scale s' - lse), and ds is also multiplied by the derivative of s'.
struct SoftmaxBackward {
  float* s;
  float* dp;
  float scale, lse, delta;
  float raw_cap = 0;  // 0: none
};
void softmax_backward_row(const SoftmaxBackward&, u64 n);

float dot_row(const float* a, const float* b, u64 n);

}  // namespace tidepool
