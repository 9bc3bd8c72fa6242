// SiLU in device code, in the form that kernels/swiglu has on the CPU.
#pragma once

#include "kernels/cuda/device.h"

namespace tidepool::cuda {

// silu(x) = x s, s = logistic(x); slope is its derivative, s + x s (1 - s).
struct Silu {
  float value, slope;
};
__device__ __forceinline__ Silu silu(float x) {
  // Bounded so that e^80 s stays a number; there silu is below 1e-32 anyway. NaN stays NaN.
  const float e = expf(-x > 80.0f ? 80.0f : -x);
  const float open = 1.0f / (1.0f + e), closed = e * open;
  const float value = x * open;
  return {value, fmaf(value, closed, open)};
}

}  // namespace tidepool::cuda
