// Soft caps in device code.
#pragma once

#include <type_traits>

#include "kernels/cuda/device.h"

namespace tidepool::cuda {

// tanh(x). For values that are rounded to 16 bits, T: 1 - 2 / (e^2x + 1) with the fast exponential and
// quotient, to 2e-7 absolute. tanh.approx, to 5e-4, would be coarser than the rounding of scores. NaN stays
// NaN.
template <class T>
__device__ __forceinline__ float tanh_of(float x) {
  if constexpr (std::is_same_v<T, float>) {
    return tanhf(x);
  } else {
    const float bounded = x > 10.0f ? 10.0f : x;  // e^2x stays finite; from 10 on, tanh rounds to 1
    return 1.0f - __fdividef(2.0f, 1.0f + __expf(2.0f * bounded));
  }
}

// y = cap tanh(x / cap), and its derivative, 1 - tanh^2. T: as for tanh_of().
struct Capped {
  float value, slope;
};
template <class T>
__device__ __forceinline__ Capped capped(float x, float cap, float inverse) {
  const float t = tanh_of<T>(x * inverse);
  return {t * cap, fmaf(-t, t, 1.0f)};
}

}  // namespace tidepool::cuda
