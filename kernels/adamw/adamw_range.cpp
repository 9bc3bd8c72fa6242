#include "kernels/adamw/adamw_range.h"

#include <cmath>
#include <cstring>

#include "kernels/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/adamw/adamw_range.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd/bf16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tidepool::HWY_NAMESPACE {

using F = hn::ScalableTag<float>;
using V = hn::Vec<F>;

// a * b + c, rounded once. Without the instruction libm makes it, slowly but with the same bits.
HWY_INLINE V fma(V a, V b, V c) {
#if HWY_NATIVE_FMA
  return hn::MulAdd(a, b, c);
#else
  HWY_ALIGN float x[hn::MaxLanes(F())], y[hn::MaxLanes(F())], z[hn::MaxLanes(F())];
  hn::Store(a, F(), x), hn::Store(b, F(), y), hn::Store(c, F(), z);
  for (size_t i = 0; i < hn::Lanes(F()); ++i) x[i] = std::fma(x[i], y[i], z[i]);
  return hn::Load(F(), x);
#endif
}

struct Fp32 {
  static constexpr size_t grad_bytes = 4, param_bytes = 4, low_bytes = 0;
  static V load_grad(const std::byte* p) { return hn::LoadU(F(), reinterpret_cast<const float*>(p)); }
  static V load_master(const std::byte* p, const std::byte*) { return load_grad(p); }
  static void store_master(V x, std::byte* p, std::byte*) { hn::StoreU(x, F(), reinterpret_cast<float*>(p)); }
};

struct Bf16 {
  static constexpr size_t grad_bytes = 2, param_bytes = 2, low_bytes = 2;
  static V load_grad(const std::byte* p) { return load_bf16(F(), reinterpret_cast<const uint16_t*>(p)); }
  static V load_master(const std::byte* p, const std::byte* low) {
    return load_split(F(), reinterpret_cast<const uint16_t*>(p), reinterpret_cast<const int16_t*>(low));
  }
  static void store_master(V x, std::byte* p, std::byte* low) {
    store_split(F(), x, reinterpret_cast<uint16_t*>(p), reinterpret_cast<int16_t*>(low));
  }
};

// REQUIRES: r.elements is a multiple of the vector's lanes.
template <class Layout, bool decayed>
void whole_vectors(const AdamWRange& r, const AdamWScalars& s) {
  const F d;
  const V grad_scale = hn::Set(d, s.grad_scale), decay = hn::Set(d, s.decay);
  const V beta1 = hn::Set(d, s.beta1), one_minus_beta1 = hn::Set(d, s.one_minus_beta1);
  const V beta2 = hn::Set(d, s.beta2), one_minus_beta2 = hn::Set(d, s.one_minus_beta2);
  const V correction2 = hn::Set(d, s.inv_sqrt_bias_correction2), epsilon = hn::Set(d, s.epsilon);
  const V minus_step_size = hn::Set(d, -s.step_size);
  const size_t lanes = hn::Lanes(d);
  for (size_t i = 0; i < r.elements; i += lanes) {
    std::byte* param = r.param + i * Layout::param_bytes;
    std::byte* low = r.master_low + i * Layout::low_bytes;
    const V g = hn::Mul(Layout::load_grad(r.grad + i * Layout::grad_bytes), grad_scale);
    V p = Layout::load_master(param, low);
    if constexpr (decayed) p = hn::Mul(p, decay);
    const V m = fma(beta1, hn::LoadU(d, r.momentum + i), hn::Mul(one_minus_beta1, g));
    const V v = fma(beta2, hn::LoadU(d, r.variance + i), hn::Mul(hn::Mul(one_minus_beta2, g), g));
    const V denom = fma(hn::Sqrt(v), correction2, epsilon);
    Layout::store_master(fma(minus_step_size, hn::Div(m, denom), p), param, low);
    hn::StoreU(m, d, r.momentum + i);
    hn::StoreU(v, d, r.variance + i);
  }
}

// The last few elements go through buffers of one vector, so that they see the same instructions.
template <class Layout, bool decayed>
void last_elements(const AdamWRange& r, const AdamWScalars& s) {
  constexpr size_t lanes_max = hn::MaxLanes(F());
  HWY_ALIGN std::byte grad[lanes_max * 4] = {}, param[lanes_max * 4] = {}, low[lanes_max * 4] = {};
  HWY_ALIGN float momentum[lanes_max] = {}, variance[lanes_max] = {};
  const size_t n = r.elements;
  std::memcpy(grad, r.grad, n * Layout::grad_bytes);
  std::memcpy(param, r.param, n * Layout::param_bytes);
  if (Layout::low_bytes != 0) std::memcpy(low, r.master_low, n * Layout::low_bytes);
  std::memcpy(momentum, r.momentum, n * sizeof(float));
  std::memcpy(variance, r.variance, n * sizeof(float));
  whole_vectors<Layout, decayed>({.elements = hn::Lanes(F()), .grad = grad, .param = param, .master_low = low,
                                  .momentum = momentum, .variance = variance}, s);
  std::memcpy(r.param, param, n * Layout::param_bytes);
  if (Layout::low_bytes != 0) std::memcpy(r.master_low, low, n * Layout::low_bytes);
  std::memcpy(r.momentum, momentum, n * sizeof(float));
  std::memcpy(r.variance, variance, n * sizeof(float));
}

template <class Layout, bool decayed>
void range(const AdamWRange& r, const AdamWScalars& s) {
  AdamWRange whole = r, rest = r;
  rest.elements = r.elements % hn::Lanes(F());
  whole.elements = r.elements - rest.elements;
  whole_vectors<Layout, decayed>(whole, s);
  if (rest.elements == 0) return;
  rest.grad += whole.elements * Layout::grad_bytes;
  rest.param += whole.elements * Layout::param_bytes;
  rest.master_low += whole.elements * Layout::low_bytes;
  rest.momentum += whole.elements;
  rest.variance += whole.elements;
  last_elements<Layout, decayed>(rest, s);
}

void range_fp32(const AdamWRange& r, const AdamWScalars& s) {
  r.decay ? range<Fp32, true>(r, s) : range<Fp32, false>(r, s);
}
void range_bf16(const AdamWRange& r, const AdamWScalars& s) {
  r.decay ? range<Bf16, true>(r, s) : range<Bf16, false>(r, s);
}

}  // namespace tidepool::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tidepool {

HWY_EXPORT(range_fp32);
HWY_EXPORT(range_bf16);

void adamw_range(const AdamWRange& range, Precision precision, const AdamWScalars& scalars) {
  precision == Precision::bf16 ? HWY_DYNAMIC_DISPATCH(range_bf16)(range, scalars)
                               : HWY_DYNAMIC_DISPATCH(range_fp32)(range, scalars);
}

}  // namespace tidepool
#endif
