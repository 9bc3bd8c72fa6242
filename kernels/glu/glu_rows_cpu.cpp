#include "kernels/glu/glu_rows.h"

#include "kernels/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/glu/glu_rows_cpu.cpp"
#include <hwy/foreach_target.h>

#include "kernels/simd/gates-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tidepool::HWY_NAMESPACE {

template <class V>
struct GluPair {
  V gate, up;
};
struct GluHalves {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE GluPair<V> load(D d, const float* x, u64 i, u64 n) {
    return {hn::LoadU(d, x + i), hn::LoadU(d, x + n + i)};
  }
  template <class D, class V>
  static HWY_INLINE void store(D d, GluPair<V> v, float* x, u64 i, u64 n) {
    hn::StoreU(v.gate, d, x + i);
    hn::StoreU(v.up, d, x + n + i);
  }
};
struct GluInterleaved {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE GluPair<V> load(D d, const float* x, u64 i, u64) {
    GluPair<V> v;
    hn::LoadInterleaved2(d, x + 2 * i, v.gate, v.up);
    return v;
  }
  template <class D, class V>
  static HWY_INLINE void store(D d, GluPair<V> v, float* x, u64 i, u64) {
    hn::StoreInterleaved2(v.gate, v.up, d, x + 2 * i);
  }
};

// One factor, in the place of the gate.
struct GluAlone {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE GluPair<V> load(D d, const float* x, u64 i, u64) {
    return {hn::LoadU(d, x + i), hn::Zero(d)};
  }
  template <class D, class V>
  static HWY_INLINE void store(D d, GluPair<V> v, float* x, u64 i, u64) {
    hn::StoreU(v.gate, d, x + i);
  }
};

// y, and the gradients of gate and up.
template <class V>
struct GluResult {
  V y;
  GluPair<V> slopes;
};

template <class Act>
struct PlainGlu {
  template <class D, class V>
  HWY_INLINE V value(D d, GluPair<V> x) const {
    return hn::Mul(Act::value(d, x.gate), x.up);
  }
  template <class D, class V>
  HWY_INLINE GluResult<V> backward(D d, GluPair<V> x, V dy) const {
    const auto act = Act::with_slope(d, x.gate);
    return {hn::Mul(act.value, x.up), {hn::Mul(hn::Mul(dy, x.up), act.slope), hn::Mul(dy, act.value)}};
  }
};

// GluGate::clamped. Comparisons are false for NaN, so NaN stays NaN.
struct ClampedGlu {
  GluClamp clamp;

  template <class D, class V>
  HWY_INLINE GluPair<V> bounded(D d, GluPair<V> x) const {
    const V high = hn::Set(d, clamp.bound), low = hn::Set(d, -clamp.bound);
    const V up = hn::IfThenElse(hn::Gt(x.up, high), high, x.up);
    return {hn::IfThenElse(hn::Gt(x.gate, high), high, x.gate), hn::IfThenElse(hn::Lt(up, low), low, up)};
  }
  template <class D, class V>
  HWY_INLINE V value(D d, GluPair<V> x) const {
    const GluPair<V> b = bounded(d, x);
    const V open = gate_of_minus(d, hn::Mul(b.gate, hn::Set(d, -clamp.slope))).open;
    return hn::Mul(hn::Add(b.up, hn::Set(d, 1.0f)), hn::Mul(b.gate, open));
  }
  template <class D, class V>
  HWY_INLINE GluResult<V> backward(D d, GluPair<V> x, V dy) const {
    const GluPair<V> b = bounded(d, x);
    const Gate<V> s = gate_of_minus(d, hn::Mul(b.gate, hn::Set(d, -clamp.slope)));
    const V act = hn::Mul(b.gate, s.open), up1 = hn::Add(b.up, hn::Set(d, 1.0f));
    const V slope = hn::MulAdd(hn::Mul(act, s.closed), hn::Set(d, clamp.slope), s.open);
    const auto gate_beyond = hn::Gt(x.gate, hn::Set(d, clamp.bound));
    const auto up_beyond = hn::Gt(hn::Abs(x.up), hn::Set(d, clamp.bound));
    return {hn::Mul(up1, act),
            {hn::IfThenZeroElse(gate_beyond, hn::Mul(hn::Mul(dy, up1), slope)),
             hn::IfThenZeroElse(up_beyond, hn::Mul(dy, act))}};
  }
};

struct SquaredReluAlone {
  template <class D, class V>
  HWY_INLINE V value(D d, GluPair<V> x) const {
    return SquaredReluLanes::value(d, x.gate);
  }
  template <class D, class V>
  HWY_INLINE GluResult<V> backward(D d, GluPair<V> x, V dy) const {
    const auto act = SquaredReluLanes::with_slope(d, x.gate);
    return {act.value, {hn::Mul(dy, act.slope), x.up}};
  }
};

template <class Layout, class Unit>
void glu_lanes(Unit unit, const float* gate_up, float* y, u64 n) {
  for_lanes(n, [&](auto d, u64 i)
                   HWY_ATTR { hn::StoreU(unit.value(d, Layout::load(d, gate_up, i, n)), d, y + i); });
}

template <class Layout, class Unit>
float glu_backward_lanes(Unit unit, const GluRowBackward& r, u64 n) {
  return sum_lanes(n, [&](auto d, u64 i) HWY_ATTR {
    const auto weight = hn::Set(d, r.weight);
    const auto dy = hn::LoadU(d, r.dy + i);
    const auto back = unit.backward(d, Layout::load(d, r.gate_up, i, n), hn::Mul(dy, weight));
    Layout::store(d, back.slopes, r.dgate_up, i, n);
    if (r.value != nullptr) hn::StoreU(hn::Mul(back.y, weight), d, r.value + i);
    return hn::Mul(dy, back.y);
  });
}

// Calls fn(unit, layout).
template <class Fn>
HWY_INLINE auto for_glu_kind(GluKind kind, Fn fn) {
  const auto with_layout = [&](auto unit) {
    return kind.interleaved ? fn(unit, GluInterleaved()) : fn(unit, GluHalves());
  };
  if (kind.gate == GluGate::silu) return with_layout(PlainGlu<SiluLanes>());
  if (kind.gate == GluGate::gelu) return with_layout(PlainGlu<GeluLanes>());
  if (kind.gate == GluGate::squared_relu) return fn(SquaredReluAlone(), GluAlone());
  return with_layout(ClampedGlu{kind.clamp});
}

void lanes_of_glu(GluKind kind, const float* gate_up, float* y, u64 n) {
  for_glu_kind(kind, [&](auto unit, auto layout) { glu_lanes<decltype(layout)>(unit, gate_up, y, n); });
}

float lanes_of_glu_backward(GluKind kind, const GluRowBackward& r, u64 n) {
  return for_glu_kind(
      kind, [&](auto unit, auto layout) { return glu_backward_lanes<decltype(layout)>(unit, r, n); });
}

}  // namespace tidepool::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tidepool {

HWY_EXPORT(lanes_of_glu);
HWY_EXPORT(lanes_of_glu_backward);

void glu_row(GluKind kind, const float* gate_up, float* y, u64 n) {
  HWY_DYNAMIC_DISPATCH(lanes_of_glu)(kind, gate_up, y, n);
}

float glu_backward_row(GluKind kind, const GluRowBackward& row, u64 n) {
  return HWY_DYNAMIC_DISPATCH(lanes_of_glu_backward)(kind, row, n);
}

}  // namespace tidepool
#endif
