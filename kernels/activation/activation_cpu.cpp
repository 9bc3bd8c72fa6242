#include "kernels/activation/activation.h"

#include "kernels/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/activation/activation_cpu.cpp"
#include <hwy/foreach_target.h>

#include "kernels/simd/gates-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tidepool::HWY_NAMESPACE {

template <class Act>
HWY_INLINE void activate(const float* x, float* y, u64 n) {
  for_lanes(n, [&](auto d, u64 i) HWY_ATTR {
    const auto v = hn::LoadU(d, x + i);
    hn::StoreU(Act::value(d, v), d, y + i);
  });
}

template <class Act>
HWY_INLINE void activate_backward(const float* x, const float* dy, float* dx, float* value, u64 n) {
  for_lanes(n, [&](auto d, u64 i) HWY_ATTR {
    const auto y = Act::with_slope(d, hn::LoadU(d, x + i));
    const auto gradient = hn::Mul(hn::LoadU(d, dy + i), y.slope);
    if (value != nullptr) hn::StoreU(y.value, d, value + i);
    hn::StoreU(gradient, d, dx + i);
  });
}

void gelu_lanes(const float* x, float* y, u64 n) { activate<GeluLanes>(x, y, n); }
void gelu_backward_lanes(const float* x, const float* dy, float* dx, float* value, u64 n) {
  activate_backward<GeluLanes>(x, dy, dx, value, n);
}

void squared_relu_lanes(const float* x, float* y, u64 n) { activate<SquaredReluLanes>(x, y, n); }
void squared_relu_backward_lanes(const float* x, const float* dy, float* dx, float* value, u64 n) {
  activate_backward<SquaredReluLanes>(x, dy, dx, value, n);
}

}  // namespace tidepool::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tidepool {

HWY_EXPORT(gelu_lanes);
HWY_EXPORT(gelu_backward_lanes);
HWY_EXPORT(squared_relu_lanes);
HWY_EXPORT(squared_relu_backward_lanes);

void gelu_row(const float* x, float* y, u64 n) { HWY_DYNAMIC_DISPATCH(gelu_lanes)(x, y, n); }

void gelu_backward_row(const float* x, const float* dy, float* dx, float* value, u64 n) {
  HWY_DYNAMIC_DISPATCH(gelu_backward_lanes)(x, dy, dx, value, n);
}

void squared_relu_row(const float* x, float* y, u64 n) { HWY_DYNAMIC_DISPATCH(squared_relu_lanes)(x, y, n); }

void squared_relu_backward_row(const float* x, const float* dy, float* dx, float* value, u64 n) {
  HWY_DYNAMIC_DISPATCH(squared_relu_backward_lanes)(x, dy, dx, value, n);
}

}  // namespace tidepool
#endif
