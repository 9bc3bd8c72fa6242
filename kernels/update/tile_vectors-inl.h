// Vectors of update rules, and fma on every target. Per-target: include after <hwy/highway.h>, inside each
// foreach_target pass.
#if defined(TIDEPOOL_KERNELS_UPDATE_TILE_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TIDEPOOL_KERNELS_UPDATE_TILE_VECTORS_INL_H_
#undef TIDEPOOL_KERNELS_UPDATE_TILE_VECTORS_INL_H_
#else
#define TIDEPOOL_KERNELS_UPDATE_TILE_VECTORS_INL_H_
#endif

#include <hwy/highway.h>

#include <cmath>
#include <utility>

#include "kernels/simd/bf16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tidepool::HWY_NAMESPACE::rules {

using F = hn::CappedTag<float, 16>;
using V = hn::Vec<F>;
using Pair = VectorPair<V>;
constexpr size_t lanes = hn::MaxLanes(F());

// a * b + c and a * b - c, rounded once. Without the instruction libm computes them, slowly but with the same
// bits.
#if HWY_NATIVE_FMA
HWY_INLINE V fma(V a, V b, V c) { return hn::MulAdd(a, b, c); }
HWY_INLINE V fms(V a, V b, V c) { return hn::MulSub(a, b, c); }
#else
HWY_INLINE V fma(V a, V b, V c) {
  HWY_ALIGN float x[lanes], y[lanes], z[lanes];
  hn::Store(a, F(), x), hn::Store(b, F(), y), hn::Store(c, F(), z);
  for (size_t i = 0; i < lanes; ++i) x[i] = std::fma(x[i], y[i], z[i]);
  return hn::Load(F(), x);
}
HWY_INLINE V fms(V a, V b, V c) { return fma(a, b, hn::Neg(c)); }
#endif

// Calls fn(0) to fn(count - 1) with numbers that are known when this is compiled: arrays of vectors then stay
// in registers. A loop costs a sixth of AdamW's speed with checksums.
template <class Fn, size_t... i>
HWY_INLINE void each_of(std::index_sequence<i...>, Fn&& fn) {
  (fn(std::integral_constant<size_t, i>()), ...);
}
template <size_t count, class Fn>
HWY_INLINE void each(Fn&& fn) {
  each_of(std::make_index_sequence<count>(), fn);
}

}  // namespace tidepool::HWY_NAMESPACE::rules
HWY_AFTER_NAMESPACE();

#endif  // per target
