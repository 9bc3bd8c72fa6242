// Activations in device code: SiLU and GELU are x times a gate, a logistic of x.
#pragma once

#include <type_traits>

#include "kernels/cuda/device.h"

namespace tidepool::cuda {

struct LogisticGate {
  float open, closed;  // logistic(x), and 1 - logistic(x) without cancellation
};

// For values that are rounded to T. For 16 bits, the approximate exponential and quotient are exact enough:
// their error is 2 + 1.2 |x| ulps of fp32, where an ulp of bf16 is 2^16 of these and an ulp of fp16 2^13.
// Their speed matters: a pass that reads and writes 4 bytes per value leaves 132 SMs at 1.7 GHz some 34
// operations per value at 3.35 TB/s, of which IEEE's exponential and division take about 18, and the
// approximations 4.
template <class T>
__device__ __forceinline__ LogisticGate logistic_gate(float x) {
  // Bounded so that e^80 s stays finite; at the bound x s is below 1e-32 anyway. NaN stays NaN.
  const float minus_x = -x > 80.0f ? 80.0f : -x;
  float e, open;
  if constexpr (std::is_same_v<T, float>) {
    e = expf(minus_x);
    open = 1.0f / (1.0f + e);
  } else {
    e = __expf(minus_x);
    open = __fdividef(1.0f, 1.0f + e);  // returns 0 for divisors from 2^126 on, which e^80 does not reach
  }
  return {open, e * open};
}

// y = act(x) and its derivative.
struct Activated {
  float value, slope;
};

// silu(x) = x s, s = logistic(x); silu' = s + x s (1 - s). T: as for logistic_gate().
struct Silu {
  template <class T>
  static __device__ __forceinline__ float value(float x) {
    return x * logistic_gate<T>(x).open;
  }
  template <class T>
  static __device__ __forceinline__ Activated with_slope(float x) {
    const LogisticGate gate = logistic_gate<T>(x);
    const float y = x * gate.open;
    return {y, fmaf(y, gate.closed, gate.open)};
  }
};

// gelu(x) = x s, s = logistic(2u), u = sqrt(2 / pi) (x + 0.044715 x^3); gelu' = s + x s (1 - s) 2u'.
struct Gelu {
  static constexpr float cubic = 0.044715f;
  static constexpr float twice_root = 1.59576912160573071f;  // 2 sqrt(2 / pi)

  template <class T>
  static __device__ __forceinline__ LogisticGate gate(float x) {
    const float inner = fmaf(x * (x * x), cubic, x);
    return logistic_gate<T>(inner * twice_root);
  }
  template <class T>
  static __device__ __forceinline__ float value(float x) {
    return x * gate<T>(x).open;
  }
  template <class T>
  static __device__ __forceinline__ Activated with_slope(float x) {
    const LogisticGate s = gate<T>(x);
    const float y = x * s.open;
    const float slope = fmaf(x * x, 3 * cubic, 1.0f) * twice_root;
    return {y, fmaf(y * s.closed, slope, s.open)};
  }
};

// r^2, r = max(x, 0), and its derivative 2r. NaN stays NaN.
struct SquaredRelu {
  static __device__ __forceinline__ float relu(float x) { return x < 0.0f ? 0.0f : x; }
  template <class T>
  static __device__ __forceinline__ float value(float x) {
    return relu(x) * relu(x);
  }
  template <class T>
  static __device__ __forceinline__ Activated with_slope(float x) {
    const float r = relu(x);
    return {r * r, r + r};
  }
};

}  // namespace tidepool::cuda
