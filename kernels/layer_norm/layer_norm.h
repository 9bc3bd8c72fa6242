// Layer normalisation over rows (Ba, Kiros and Hinton, arXiv:1607.06450).
#pragma once

#include "kernels/values.h"
#include "tidepool/core_pool.h"

namespace tidepool {

inline constexpr u32 layer_norm_group_rows = 64;

// y = (x - mean) * rstd * weight + bias, rstd = 1 / sqrt(variance + epsilon).
struct LayerNorm {
  u32 rows = 0, columns = 0;
  ConstValues x;             // [R, C]
  Param weight, bias;        // [C]
  float epsilon = 1e-5f;
  Values y;                  // [R, C]
  float* mean = nullptr;     // [R], or null
  float* rstd = nullptr;     // [R], or null
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
  bool add_to_dx = false;       // dx += instead of dx =; what a residual stream wants
  float* dweight = nullptr;     // [C]
  float* dbias = nullptr;       // [C]
  bool accumulate = true;       // of dweight and dbias; false: overwrite
  float* partials = nullptr;    // workspace, [layer_norm_partials(R, C)]
};
void layer_norm_backward_cpu(const LayerNormBackward&, CorePool&);

// Each group of rows sums its share of dweight and dbias; the groups are then summed in order.
constexpr u64 layer_norm_partials(u64 rows, u64 columns) {
  return div_up(rows, layer_norm_group_rows) * 2 * columns;
}

}  // namespace tidepool
