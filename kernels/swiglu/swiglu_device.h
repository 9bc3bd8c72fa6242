// SiLU in device code, in the form that kernels/swiglu has on the CPU. T: the type that values are rounded
// to.
#pragma once

#include "kernels/cuda/logistic.h"

namespace tidepool::cuda {

// silu(x) = x s, s = logistic(x); slope is its derivative, s + x s (1 - s).
struct Silu {
  float value, slope;
};
template <class T>
__device__ __forceinline__ Silu silu(float x) {
  const LogisticGate gate = logistic_gate<T>(x);
  const float value = x * gate.open;
  return {value, fmaf(value, gate.closed, gate.open)};
}

}  // namespace tidepool::cuda
