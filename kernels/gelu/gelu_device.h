// GELU in device code, in the form that kernels/gelu/gelu.h documents.
#pragma once

#include "kernels/cuda/device.h"

namespace tidepool::cuda {

struct GeluGate {
  float open,
      closed;  // s = logistic(2u), u = sqrt(2 / pi) (x + 0.044715 x^3); and 1 - s without cancellation
};

inline constexpr float gelu_cubic = 0.044715f;
inline constexpr float gelu_twice_root = 1.59576912160573071f;  // 2 sqrt(2 / pi)

__device__ __forceinline__ GeluGate gelu_gate(float x) {
  const float inner = fmaf(x * (x * x), gelu_cubic, x);
  // Bounded so that e^80 s stays a number; there gelu is below 1e-33 anyway. NaN stays NaN.
  const float minus_2u = inner * -gelu_twice_root;
  const float e = expf(minus_2u > 80.0f ? 80.0f : minus_2u);
  const float open = 1.0f / (1.0f + e);
  return {open, e * open};
}

__device__ __forceinline__ float gelu(float x) { return x * gelu_gate(x).open; }

struct GeluSlope {
  float value, derivative;
};
// gelu' = s + x s (1 - s) 2u'
__device__ __forceinline__ GeluSlope gelu_slope(float x) {
  const GeluGate gate = gelu_gate(x);
  const float y = x * gate.open;
  const float slope = fmaf(x * x, 3 * gelu_cubic, 1.0f) * gelu_twice_root;
  return {y, fmaf(y * gate.closed, slope, gate.open)};
}

}  // namespace tidepool::cuda
