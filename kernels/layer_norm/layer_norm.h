// Layer normalisation over rows (Ba, Kiros and Hinton, arXiv:1607.06450).
#pragma once

#include "kernels/norm/norm_groups.h"
#include "kernels/values.h"

namespace tidepool {

// y = (x - mean) * rstd * weight + bias, rstd = 1 / sqrt(variance + epsilon).
struct LayerNorm {
  u32 rows = 0, columns = 0;
  ConstValues x;       // [R, C]
  Param weight, bias;  // [C]
  float epsilon = 1e-5f;
  Values y;               // [R, C]
  float* mean = nullptr;  // [R], or null
  float* rstd = nullptr;  // [R], or null
};
void layer_norm_cpu(const LayerNorm&, CorePool&);

struct LayerNormBackward {
  u32 rows = 0, columns = 0;
  ConstValues x;                // [R, C]
  Param weight;                 // [C]
  const float* mean = nullptr;  // [R]
  const float* rstd = nullptr;  // [R]
  ConstValues dy;               // [R, C]
  Values dx;                    // [R, C]
  bool add_to_dx = false;       // dx += instead of dx =, for a residual stream
  float* dweight = nullptr;     // [C], or null together with dbias
  float* dbias = nullptr;       // [C]
  bool accumulate = true;       // for dweight and dbias; false: overwrite
  float* partials = nullptr;    // workspace, [layer_norm_partials(R, C)]
};
void layer_norm_backward_cpu(const LayerNormBackward&, CorePool&);

constexpr u64 layer_norm_partials(u64 rows, u64 columns) { return norm_groups(rows) * 2 * columns; }

}  // namespace tidepool
