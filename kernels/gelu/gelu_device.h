// GELU in device code, in the form that kernels/gelu/gelu.h documents. T: the type that values are rounded
// to.
#pragma once

#include "kernels/cuda/logistic.h"

namespace tidepool::cuda {

inline constexpr float gelu_cubic = 0.044715f;
inline constexpr float gelu_twice_root = 1.59576912160573071f;  // 2 sqrt(2 / pi)

// s = logistic(2u), u = sqrt(2 / pi) (x + 0.044715 x^3)
template <class T>
__device__ __forceinline__ LogisticGate gelu_gate(float x) {
  const float inner = fmaf(x * (x * x), gelu_cubic, x);
  return logistic_gate<T>(inner * gelu_twice_root);
}

template <class T>
__device__ __forceinline__ float gelu(float x) {
  return x * gelu_gate<T>(x).open;
}

struct GeluSlope {
  float value, derivative;
};
// gelu' = s + x s (1 - s) 2u'
template <class T>
__device__ __forceinline__ GeluSlope gelu_slope(float x) {
  const LogisticGate gate = gelu_gate<T>(x);
  const float y = x * gate.open;
  const float slope = fmaf(x * x, 3 * gelu_cubic, 1.0f) * gelu_twice_root;
  return {y, fmaf(y * gate.closed, slope, gate.open)};
}

}  // namespace tidepool::cuda
