#include "kernels/gelu/gelu.h"

#include "kernels/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gelu/gelu_cpu.cpp"
#include <hwy/foreach_target.h>

#include "kernels/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tidepool::HWY_NAMESPACE {

constexpr float cubic = 0.044715f;
constexpr float twice_root = 1.59576912160573071f;  // 2 sqrt(2 / pi)

// Gate s = logistic(2u), u = sqrt(2 / pi) (x + 0.044715 x^3), and 1 - s without cancellation.
template <class V>
struct Gate {
  V open, closed;
};

template <class D, class V = hn::Vec<D>>
HWY_INLINE Gate<V> gelu_gate(D d, V x, V x2) {
  const V inner = hn::MulAdd(hn::Mul(x, x2), hn::Set(d, cubic), x);
  // Bounded so that e^80 s stays finite; at the bound gelu is below 1e-33 anyway.
  const V minus_2u = hn::Mul(inner, hn::Set(d, -twice_root));
  const V e = exp_lanes(d, hn::IfThenElse(hn::Gt(minus_2u, hn::Set(d, 80.0f)), hn::Set(d, 80.0f), minus_2u));
  const V one = hn::Set(d, 1.0f);
  const V open = hn::Div(one, hn::Add(one, e));
  return {open, hn::Mul(e, open)};
}

void gelu_lanes(const float* x, float* y, u64 n) {
  for_lanes(n, [&](auto d, u64 i) HWY_ATTR {
    const auto v = hn::LoadU(d, x + i);
    hn::StoreU(hn::Mul(v, gelu_gate(d, v, hn::Mul(v, v)).open), d, y + i);
  });
}

// gelu' = s + x s (1 - s) 2u'
void gelu_backward_lanes(const float* x, const float* dy, float* dx, float* value, u64 n) {
  for_lanes(n, [&](auto d, u64 i) HWY_ATTR {
    const auto v = hn::LoadU(d, x + i);
    const auto v2 = hn::Mul(v, v);
    const auto gate = gelu_gate(d, v, v2);
    const auto y = hn::Mul(v, gate.open);
    const auto one = hn::Set(d, 1.0f);
    const auto slope = hn::Mul(hn::MulAdd(v2, hn::Set(d, 3 * cubic), one), hn::Set(d, twice_root));
    const auto derivative = hn::MulAdd(hn::Mul(y, gate.closed), slope, gate.open);
    const auto gradient = hn::Mul(hn::LoadU(d, dy + i), derivative);
    if (value != nullptr) hn::StoreU(y, d, value + i);
    hn::StoreU(gradient, d, dx + i);
  });
}

}  // namespace tidepool::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tidepool {

HWY_EXPORT(gelu_lanes);
HWY_EXPORT(gelu_backward_lanes);

void gelu_row(const float* x, float* y, u64 n) { HWY_DYNAMIC_DISPATCH(gelu_lanes)(x, y, n); }

void gelu_backward_row(const float* x, const float* dy, float* dx, float* value, u64 n) {
  HWY_DYNAMIC_DISPATCH(gelu_backward_lanes)(x, dy, dx, value, n);
}

}  // namespace tidepool
#endif
