// Half precision in vectors, with the bits of tidepool/fp16.h. Per-target: include after <hwy/highway.h>,
// inside each foreach_target pass.
#if defined(TIDEPOOL_KERNELS_SIMD_FP16_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TIDEPOOL_KERNELS_SIMD_FP16_INL_H_
#undef TIDEPOOL_KERNELS_SIMD_FP16_INL_H_
#else
#define TIDEPOOL_KERNELS_SIMD_FP16_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace tidepool::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Highway's own conversions are instructions on these targets. On other targets they truncate values that do
// not fit, so our own conversions are used there.
#undef TIDEPOOL_NATIVE_FP16
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
#define TIDEPOOL_NATIVE_FP16 1
#else
#define TIDEPOOL_NATIVE_FP16 0
#endif

// float[N] of the halves at `half`.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V load_fp16(D d, const uint16_t* half) {
  const hn::Rebind<uint16_t, D> d16;
#if TIDEPOOL_NATIVE_FP16
  return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), hn::LoadU(d16, half)));
#else
  const hn::RebindToSigned<D> di;
  const auto bits = hn::PromoteTo(di, hn::LoadU(d16, half));
  const auto magnitude = hn::And(bits, hn::Set(di, 0x7fff));
  const auto sign = hn::ShiftLeft<16>(hn::Xor(bits, magnitude));
  const auto small = hn::BitCast(di, hn::Mul(hn::ConvertTo(d, magnitude), hn::Set(d, 0x1p-24f)));
  const auto shifted = hn::Add(hn::ShiftLeft<13>(magnitude), hn::Set(di, 112 << 23));
  const auto special = hn::Or(shifted, hn::Set(di, 0x7f80'0000));
  auto wide = hn::IfThenElse(hn::Lt(magnitude, hn::Set(di, 0x400)), small, shifted);
  wide = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, 0x7bff)), special, wide);
  return hn::BitCast(d, hn::Or(sign, wide));
#endif
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE hn::Vec<hn::Rebind<uint16_t, D>> fp16_of(D d, V x) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::RebindToSigned<D> di;
#if TIDEPOOL_NATIVE_FP16
  const auto nan = hn::BitCast(d, hn::Set(di, 0x7fc0'0000));
  const auto narrow = hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), hn::IfThenElse(hn::IsNaN(x), nan, x));
  return hn::BitCast(d16, narrow);
#else
  const auto bits = hn::BitCast(di, x);
  const auto magnitude = hn::And(bits, hn::Set(di, 0x7fff'ffff));
  const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(di, 0x8000));
  const auto half_even = hn::Add(hn::Set(di, 0xfff), hn::And(hn::ShiftRight<13>(magnitude), hn::Set(di, 1)));
  const auto usual = hn::ShiftRight<13>(hn::Add(hn::Sub(magnitude, hn::Set(di, 112 << 23)), half_even));
  const auto added = hn::BitCast(di, hn::Add(hn::BitCast(d, magnitude), hn::Set(d, 0.5f)));
  const auto small = hn::Sub(added, hn::Set(di, 0x3f00'0000));
  auto narrow = hn::IfThenElse(hn::Lt(magnitude, hn::Set(di, 0x3880'0000)), small, usual);
  narrow = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, 0x477f'ffff)), hn::Set(di, 0x7c00), narrow);
  narrow = hn::Or(narrow, sign);
  narrow = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, 0x7f80'0000)), hn::Set(di, 0x7e00), narrow);
  return hn::TruncateTo(d16, hn::BitCast(hn::RebindToUnsigned<D>(), narrow));
#endif
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE void store_fp16(D d, V x, uint16_t* half) {
  hn::StoreU(fp16_of(d, x), hn::Rebind<uint16_t, D>(), half);
}

}  // namespace tidepool::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
