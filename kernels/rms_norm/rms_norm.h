// Root mean square normalisation over rows (Zhang and Sennrich, arXiv:1910.07467).
#pragma once

#include "kernels/norm/norm_groups.h"
#include "kernels/values.h"

namespace tidepool {

// y = residual + x * rstd * (weight + weight_offset), rstd = 1 / sqrt(mean(x^2) + epsilon).
struct RmsNorm {
  u32 rows = 0, columns = 0;
  ConstValues x;            // [R, C]
  Param weight;             // [C]
  float weight_offset = 0;  // 1 in Gemma
  float epsilon = 1e-6f;
  ConstValues residual;   // [R, C], or none
  Values y;               // [R, C], may be x or the residual
  float* rstd = nullptr;  // [R], or null
};
void rms_norm_cpu(const RmsNorm&, CorePool&);

struct RmsNormBackward {
  u32 rows = 0, columns = 0;
  ConstValues x;                // [R, C]
  Param weight;                 // [C]
  float weight_offset = 0;      // as in the forward
  const float* rstd = nullptr;  // [R]
  ConstValues dy;               // [R, C]; fp32, or the precision of x
  Values dx;                    // [R, C]; may be dy unless add_to_dx, if their precisions are the same
  bool add_to_dx = false;       // dx += instead of dx =, for a residual stream
  float* dweight = nullptr;     // [C], or null
  bool accumulate = true;       // for dweight; false: overwrite
  float* partials = nullptr;    // workspace, [rms_norm_partials(R, C)]
};
void rms_norm_backward_cpu(const RmsNormBackward&, CorePool&);

constexpr u64 rms_norm_partials(u64 rows, u64 columns) { return norm_groups(rows) * columns; }

}  // namespace tidepool
