// One row of a block of scores.
#pragma once

#include "base/types.h"

namespace tidepool {

// The running maximum of scaled scores, and the running sum of exp(score - maximum).
struct OnlineSoftmax {
  float maximum;
  float sum;
};

// s = exp(scale s - maximum) with the maximum moved up to cover this block. Returns the factor by
// which everything summed before must shrink.
float softmax_row(float* s, u64 n, float scale, OnlineSoftmax&);

// p = exp(scale s - lse) in place of s; ds = scale p (dp - delta) in place of dp.
struct SoftmaxBackward {
  float* s;
  float* dp;
  float scale, lse, delta;
};
void softmax_backward_row(const SoftmaxBackward&, u64 n);

float dot_row(const float* a, const float* b, u64 n);

}  // namespace tidepool
