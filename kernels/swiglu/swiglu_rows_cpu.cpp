#include "kernels/swiglu/swiglu_rows.h"

#include "kernels/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/swiglu/swiglu_rows_cpu.cpp"
#include <hwy/foreach_target.h>

#include "kernels/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tidepool::HWY_NAMESPACE {

// s = logistic(x), and 1 - s without cancellation.
template <class V>
struct Logistic {
  V open, closed;
};

template <class D, class V = hn::Vec<D>>
HWY_INLINE Logistic<V> logistic_lanes(D d, V x) {
  // Bounded so that e^80 s stays finite; at the bound silu is below 1e-32 anyway. NaN stays NaN.
  const V minus = hn::Neg(x);
  const V e = exp_lanes(d, hn::IfThenElse(hn::Gt(minus, hn::Set(d, 80.0f)), hn::Set(d, 80.0f), minus));
  const V one = hn::Set(d, 1.0f);
  const V open = hn::Div(one, hn::Add(one, e));
  return {open, hn::Mul(e, open)};
}

void swiglu_lanes(const float* gate, const float* up, float* y, u64 n) {
  for_lanes(n, [&](auto d, u64 i) HWY_ATTR {
    const auto g = hn::LoadU(d, gate + i);
    const auto silu = hn::Mul(g, logistic_lanes(d, g).open);
    hn::StoreU(hn::Mul(silu, hn::LoadU(d, up + i)), d, y + i);
  });
}

// silu' = s + x s (1 - s)
void swiglu_backward_lanes(const SwigluRowBackward& r, u64 n) {
  for_lanes(n, [&](auto d, u64 i) HWY_ATTR {
    const auto g = hn::LoadU(d, r.gate + i), u = hn::LoadU(d, r.up + i), dy = hn::LoadU(d, r.dy + i);
    const auto s = logistic_lanes(d, g);
    const auto silu = hn::Mul(g, s.open);
    const auto slope = hn::MulAdd(silu, s.closed, s.open);
    hn::StoreU(hn::Mul(hn::Mul(dy, u), slope), d, r.dgate + i);
    hn::StoreU(hn::Mul(dy, silu), d, r.dup + i);
    if (r.value != nullptr) hn::StoreU(hn::Mul(silu, u), d, r.value + i);
  });
}

}  // namespace tidepool::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tidepool {

HWY_EXPORT(swiglu_lanes);
HWY_EXPORT(swiglu_backward_lanes);

void swiglu_row(const float* gate, const float* up, float* y, u64 n) {
  HWY_DYNAMIC_DISPATCH(swiglu_lanes)(gate, up, y, n);
}

void swiglu_backward_row(const SwigluRowBackward& row, u64 n) {
  HWY_DYNAMIC_DISPATCH(swiglu_backward_lanes)(row, n);
}

}  // namespace tidepool
#endif
