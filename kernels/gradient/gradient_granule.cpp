#include "kernels/gradient/gradient_granule.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gradient/gradient_granule.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd/bf16-inl.h"
#include "kernels/simd/fp16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tidepool::HWY_NAMESPACE {

constexpr size_t norm_lanes = 16;

void add_into(const float* x, float* sum, size_t n) {
  const hn::ScalableTag<float> d;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d))
    hn::StoreU(hn::Add(hn::LoadU(d, sum + i), hn::LoadU(d, x + i)), d, sum + i);
  for (; i < n; ++i) sum[i] += x[i];
}

void round_bf16(const float* x, uint16_t* y, size_t n) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) store_bf16(d, hn::LoadU(d, x + i), y + i);
  for (; i < n; ++i) store_bf16(one, hn::LoadU(one, x + i), y + i);
}
void round_fp16(const float* x, uint16_t* y, size_t n) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) store_fp16(d, hn::LoadU(d, x + i), y + i);
  for (; i < n; ++i) store_fp16(one, hn::LoadU(one, x + i), y + i);
}

using F64 = hn::CappedTag<double, norm_lanes>;
using F32 = hn::Rebind<float, F64>;

struct FromFp32 {
  using Element = float;
  static hn::Vec<F32> load(const float* x) { return hn::LoadU(F32(), x); }
};
struct FromBf16 {
  using Element = uint16_t;
  static hn::Vec<F32> load(const uint16_t* x) { return load_bf16(F32(), x); }
};
struct FromFp16 {
  using Element = uint16_t;
  static hn::Vec<F32> load(const uint16_t* x) { return load_fp16(F32(), x); }
};

// A float's square is exact in double, so it does not matter if the target fuses.
template <class From>
void add_squares(const typename From::Element* x, size_t n, double* lanes) {
  const F64 d;
  constexpr size_t width = hn::MaxLanes(F64()), vectors = norm_lanes / width;
  hn::Vec<F64> acc[vectors];
  for (size_t k = 0; k < vectors; ++k) acc[k] = hn::LoadU(d, lanes + k * width);
  for (size_t i = 0; i < n; i += norm_lanes)
    for (size_t k = 0; k < vectors; ++k) {
      const auto value = hn::PromoteTo(d, From::load(x + i + k * width));
      acc[k] = hn::Add(acc[k], hn::Mul(value, value));
    }
  for (size_t k = 0; k < vectors; ++k) hn::StoreU(acc[k], d, lanes + k * width);
}

template <class From>
double sum_squares(const typename From::Element* x, size_t n) {
  std::array<double, norm_lanes> lanes = {};
  const size_t whole = n / norm_lanes * norm_lanes;
  add_squares<From>(x, whole, lanes.data());
  if (whole < n) {
    typename From::Element rest[norm_lanes] = {};
    std::memcpy(rest, x + whole, (n - whole) * sizeof(rest[0]));
    add_squares<From>(rest, norm_lanes, lanes.data());  // adding +0 changes no lane
  }
  for (size_t half = norm_lanes / 2; half > 0; half /= 2)
    for (size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  return lanes[0];
}

double squares_fp32(const float* x, size_t n) { return sum_squares<FromFp32>(x, n); }
double squares_bf16(const uint16_t* x, size_t n) { return sum_squares<FromBf16>(x, n); }
double squares_fp16(const uint16_t* x, size_t n) { return sum_squares<FromFp16>(x, n); }

}  // namespace tidepool::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tidepool {

HWY_EXPORT(add_into);
HWY_EXPORT(round_bf16);
HWY_EXPORT(round_fp16);
HWY_EXPORT(squares_fp32);
HWY_EXPORT(squares_bf16);
HWY_EXPORT(squares_fp16);

void sum_accumulators(std::span<const float* const> accumulators, u64 begin, float* sum, u64 elements) {
  if (accumulators[0] + begin != sum) std::copy_n(accumulators[0] + begin, elements, sum);
  for (const float* next : accumulators.subspan(1))
    HWY_DYNAMIC_DISPATCH(add_into)(next + begin, sum, elements);
}
void round_to_half(const float* x, u16* y, Precision precision, u64 elements) {
  if (precision == Precision::bf16) return HWY_DYNAMIC_DISPATCH(round_bf16)(x, y, elements);
  HWY_DYNAMIC_DISPATCH(round_fp16)(x, y, elements);
}
double sum_squares(const std::byte* x, Precision precision, u64 elements) {
  switch (precision) {
    case Precision::fp32:
      return HWY_DYNAMIC_DISPATCH(squares_fp32)(reinterpret_cast<const float*>(x), elements);
    case Precision::bf16:
      return HWY_DYNAMIC_DISPATCH(squares_bf16)(reinterpret_cast<const u16*>(x), elements);
    case Precision::fp16:
      break;
  }
  return HWY_DYNAMIC_DISPATCH(squares_fp16)(reinterpret_cast<const u16*>(x), elements);
}

}  // namespace tidepool
#endif
