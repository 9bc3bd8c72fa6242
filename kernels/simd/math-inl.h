// Vector exp and reductions for the row kernels. Included once per SIMD target.
#if defined(TIDEPOOL_KERNELS_SIMD_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TIDEPOOL_KERNELS_SIMD_MATH_INL_H_
#undef TIDEPOOL_KERNELS_SIMD_MATH_INL_H_
#else
#define TIDEPOOL_KERNELS_SIMD_MATH_INL_H_
#endif

#include <hwy/highway.h>

#include <limits>

#include "base/types.h"

HWY_BEFORE_NAMESPACE();
namespace tidepool::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Calls fn(tag, i) for every vector of [0, n). The tail goes element by element through the same code, so an
// element's bits do not depend on its place in the row.
template <class Fn>
HWY_INLINE void for_lanes(u64 n, Fn&& fn) {
  const hn::ScalableTag<float> d;
  const u64 lanes = hn::Lanes(d);
  u64 i = 0;
  for (; i + lanes <= n; i += lanes) fn(d, i);
  const hn::CappedTag<float, 1> one;
  for (; i < n; ++i) fn(one, i);
}

// e^x to about 1e-7 relative; zero below -87.3. NaN stays NaN, so that a broken loss is noticed. Reduction
// and polynomial after Cephes' expf (Moshier).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_lanes(D d, V x) {
  const hn::RebindToSigned<D> di;
  const V low = hn::Set(d, -87.3f);
  const V bounded = hn::Min(hn::Max(x, low), hn::Set(d, 88.3f));
  const V n = hn::Round(hn::Mul(bounded, hn::Set(d, 1.44269504088896341f)));
  V r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  V p = hn::Set(d, 1.9875691500e-4f);
  p = hn::MulAdd(p, r, hn::Set(d, 1.3981999507e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 8.3334519073e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 4.1665795894e-2f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.6666665459e-1f));
  p = hn::MulAdd(p, r, hn::Set(d, 5.0000001201e-1f));
  p = hn::MulAdd(p, hn::Mul(r, r), hn::Add(r, hn::Set(d, 1.0f)));
  const auto exponent = hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(di, n), hn::Set(di, 127)));
  return hn::IfThenZeroElse(hn::Lt(x, low), hn::Mul(p, hn::BitCast(d, exponent)));
}

// Sum of term(d, i) over [0, n): vector accumulators, then the tail in element order.
template <class Term>
HWY_INLINE float sum_lanes(u64 n, Term term) {
  const hn::ScalableTag<float> d;
  const u64 lanes = hn::Lanes(d);
  auto a = hn::Zero(d), b = hn::Zero(d);
  u64 i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    a = hn::Add(a, term(d, i));
    b = hn::Add(b, term(d, i + lanes));
  }
  for (; i + lanes <= n; i += lanes) a = hn::Add(a, term(d, i));
  float total = hn::GetLane(hn::SumOfLanes(d, hn::Add(a, b)));
  const hn::CappedTag<float, 1> one;
  for (; i < n; ++i) total += hn::GetLane(term(one, i));
  return total;
}

// RETURNS: the largest element; -inf if there is none. NaN may be lost here: callers notice it in the sum.
HWY_INLINE float max_lanes(const float* x, u64 n) {
  const hn::ScalableTag<float> d;
  const u64 lanes = hn::Lanes(d);
  float best = -std::numeric_limits<float>::infinity();
  auto bests = hn::Set(d, best);
  u64 i = 0;
  for (; i + lanes <= n; i += lanes) bests = hn::Max(bests, hn::LoadU(d, x + i));
  if (i > 0) best = hn::GetLane(hn::MaxOfLanes(d, bests));
  for (; i < n; ++i) best = x[i] > best ? x[i] : best;
  return best;
}

}  // namespace tidepool::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
