// Root mean square normalisation of one row, or of a head's q or k.
#pragma once

#include "base/types.h"

namespace tidepool {

// 1 / sqrt(mean(x^2) + epsilon)
float rms_of_row(const float* x, float epsilon, u64 n);

// y = x rstd weight, plus `residual` unless that is null. y may be x or the residual.
void rms_norm_row(const float* x, float rstd, const float* weight, const float* residual, float* y, u64 n);

struct RmsNormRowBackward {
  const float* x;
  const float* weight;
  const float* dy;
  float rstd;
  float* dx;  // may be dy
  bool add_to_dx;
  float* dweight;  // added to
};
void rms_norm_backward_row(const RmsNormRowBackward&, u64 n);

}  // namespace tidepool
