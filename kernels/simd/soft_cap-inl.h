// Soft caps in vectors. Included once per SIMD target.
#if defined(TIDEPOOL_KERNELS_SIMD_SOFT_CAP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TIDEPOOL_KERNELS_SIMD_SOFT_CAP_INL_H_
#undef TIDEPOOL_KERNELS_SIMD_SOFT_CAP_INL_H_
#else
#define TIDEPOOL_KERNELS_SIMD_SOFT_CAP_INL_H_
#endif

#include "kernels/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tidepool::HWY_NAMESPACE {

// tanh(x) to about 2e-7 relative. NaN stays NaN. Polynomial near 0 after Cephes' tanhf (Moshier); elsewhere
// 1 - 2 / (e^2|x| + 1), which would cancel near 0.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V tanh_lanes(D d, V x) {
  const V size = hn::Abs(x);
  const V square = hn::Mul(x, x);
  V p = hn::Set(d, -5.70498872745e-3f);
  p = hn::MulAdd(p, square, hn::Set(d, 2.06390887954e-2f));
  p = hn::MulAdd(p, square, hn::Set(d, -5.37397155531e-2f));
  p = hn::MulAdd(p, square, hn::Set(d, 1.33314422036e-1f));
  p = hn::MulAdd(p, square, hn::Set(d, -3.33332819422e-1f));
  const V near = hn::MulAdd(hn::Mul(p, square), x, x);
  const V one = hn::Set(d, 1.0f);
  // From 10 on, tanh rounds to 1.
  const V bounded = hn::IfThenElse(hn::Gt(size, hn::Set(d, 10.0f)), hn::Set(d, 10.0f), size);
  const V e = exp_lanes(d, hn::Add(bounded, bounded));
  const V far = hn::NegMulAdd(hn::Set(d, 2.0f), hn::Div(one, hn::Add(e, one)), one);
  return hn::IfThenElse(hn::Lt(size, hn::Set(d, 0.625f)), near, hn::CopySign(far, x));
}

// y = cap tanh(x / cap), and its derivative, 1 - tanh^2.
template <class V>
struct Capped {
  V value, slope;
};
template <class D, class V = hn::Vec<D>>
HWY_INLINE Capped<V> capped_lanes(D d, V x, float cap) {
  const V t = tanh_lanes(d, hn::Mul(x, hn::Set(d, 1 / cap)));
  return {hn::Mul(t, hn::Set(d, cap)), hn::NegMulAdd(t, t, hn::Set(d, 1.0f))};
}

}  // namespace tidepool::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
