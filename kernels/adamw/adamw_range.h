// The arithmetic of AdamW on a range with one decay, for the vectors of this CPU.
#pragma once

#include "kernels/adamw.h"

namespace tidepool {

struct AdamWRange {
  u64 elements = 0;
  const std::byte* grad = nullptr;
  std::byte* param = nullptr;
  std::byte* master_low = nullptr;
  float* momentum = nullptr;
  float* variance = nullptr;
  bool decay = false;
};

// Per element, each line rounded as it stands and fma rounding once, on every target alike (a GPU
// that follows this list gives the same bits):
//   g = grad * grad_scale                        p = param * decay           (decayed segments)
//   m = fma(beta1, m, one_minus_beta1 * g)       v = fma(beta2, v, (one_minus_beta2 * g) * g)
//   denom = fma(sqrt(v), inv_sqrt_bias_correction2, epsilon)
//   param = fma(-step_size, m / denom, p)
void adamw_range(const AdamWRange&, Precision, const AdamWScalars&);

}  // namespace tidepool
