// Activations: SiLU and GELU are x times a gate, a logistic of x. Included once per SIMD target.
#if defined(TIDEPOOL_KERNELS_SIMD_GATES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TIDEPOOL_KERNELS_SIMD_GATES_INL_H_
#undef TIDEPOOL_KERNELS_SIMD_GATES_INL_H_
#else
#define TIDEPOOL_KERNELS_SIMD_GATES_INL_H_
#endif

#include "kernels/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tidepool::HWY_NAMESPACE {

// s = logistic(x), and 1 - s without cancellation.
template <class V>
struct Gate {
  V open, closed;
};

// The gate of logistic(-minus).
template <class D, class V = hn::Vec<D>>
HWY_INLINE Gate<V> gate_of_minus(D d, V minus) {
  // Bounded so that e^80 s stays finite; at the bound x s is below 1e-32 anyway. NaN stays NaN.
  const V e = exp_lanes(d, hn::IfThenElse(hn::Gt(minus, hn::Set(d, 80.0f)), hn::Set(d, 80.0f), minus));
  const V one = hn::Set(d, 1.0f);
  const V open = hn::Div(one, hn::Add(one, e));
  return {open, hn::Mul(e, open)};
}

// y = act(x) and its derivative.
template <class V>
struct Activated {
  V value, slope;
};

// silu(x) = x s, s = logistic(x); silu' = s + x s (1 - s).
struct SiluLanes {
  template <class D, class V>
  static HWY_INLINE V value(D d, V x) {
    return hn::Mul(x, gate_of_minus(d, hn::Neg(x)).open);
  }
  template <class D, class V>
  static HWY_INLINE Activated<V> with_slope(D d, V x) {
    const Gate<V> gate = gate_of_minus(d, hn::Neg(x));
    const V y = hn::Mul(x, gate.open);
    return {y, hn::MulAdd(y, gate.closed, gate.open)};
  }
};

// gelu(x) = x s, s = logistic(2u), u = sqrt(2 / pi) (x + 0.044715 x^3); gelu' = s + x s (1 - s) 2u'.
struct GeluLanes {
  static constexpr float cubic = 0.044715f;
  static constexpr float twice_root = 1.59576912160573071f;  // 2 sqrt(2 / pi)

  template <class D, class V>
  static HWY_INLINE Gate<V> gate(D d, V x, V x2) {
    const V inner = hn::MulAdd(hn::Mul(x, x2), hn::Set(d, cubic), x);
    return gate_of_minus(d, hn::Mul(inner, hn::Set(d, -twice_root)));
  }
  template <class D, class V>
  static HWY_INLINE V value(D d, V x) {
    return hn::Mul(x, gate(d, x, hn::Mul(x, x)).open);
  }
  template <class D, class V>
  static HWY_INLINE Activated<V> with_slope(D d, V x) {
    const V x2 = hn::Mul(x, x);
    const Gate<V> s = gate(d, x, x2);
    const V y = hn::Mul(x, s.open);
    const V slope = hn::Mul(hn::MulAdd(x2, hn::Set(d, 3 * cubic), hn::Set(d, 1.0f)), hn::Set(d, twice_root));
    return {y, hn::MulAdd(hn::Mul(y, s.closed), slope, s.open)};
  }
};

// r^2, r = max(x, 0), and its derivative 2r. NaN stays NaN.
struct SquaredReluLanes {
  template <class D, class V>
  static HWY_INLINE V relu(D d, V x) {
    return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);
  }
  template <class D, class V>
  static HWY_INLINE V value(D d, V x) {
    const V r = relu(d, x);
    return hn::Mul(r, r);
  }
  template <class D, class V>
  static HWY_INLINE Activated<V> with_slope(D d, V x) {
    const V r = relu(d, x);
    return {hn::Mul(r, r), hn::Add(r, r)};
  }
};

}  // namespace tidepool::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
