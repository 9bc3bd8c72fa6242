// Layer normalisation of one row.
#pragma once

#include "base/types.h"

namespace tidepool {

struct RowMoments {
  float mean, rstd;
};
RowMoments layer_norm_row(const float* x, const float* weight, const float* bias, float epsilon, float* y,
                          u64 n);

struct LayerNormRowBackward {
  const float* x;
  const float* weight;
  const float* dy;
  RowMoments moments;
  float* dx;
  bool add_to_dx;
  float* dweight;  // added to
  float* dbias;    // added to
};
void layer_norm_backward_row(const LayerNormRowBackward&, u64 n);

}  // namespace tidepool
