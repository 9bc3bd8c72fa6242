// bf16 with a signed remainder, in vectors. Per-target: include after <hwy/highway.h>, inside each
// foreach_target pass.
#if defined(TIDEPOOL_KERNELS_SIMD_BF16_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TIDEPOOL_KERNELS_SIMD_BF16_INL_H_
#undef TIDEPOOL_KERNELS_SIMD_BF16_INL_H_
#else
#define TIDEPOOL_KERNELS_SIMD_BF16_INL_H_
#endif

#include <cstdint>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tidepool::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
using Half16 = hn::Rebind<uint16_t, D>;

// float[N] whose upper halves are at `high`.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V load_bf16(D d, const uint16_t* high) {
  const hn::RebindToUnsigned<D> du;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(Half16<D>(), high))));
}

// float[N] from upper halves and signed remainders.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V load_split(D d, const uint16_t* high, const int16_t* low) {
  const hn::RebindToSigned<D> di;
  const hn::Rebind<int16_t, D> d16;
  const auto upper = hn::BitCast(di, load_bf16(d, high));
  return hn::BitCast(d, hn::Add(upper, hn::PromoteTo(di, hn::LoadU(d16, low))));
}

// The bits of x, NaNs made one.
template <class D, class V = hn::Vec<D>>
HWY_INLINE hn::VFromD<hn::RebindToUnsigned<D>> canonical_bits(D d, V x) {
  const hn::RebindToUnsigned<D> du;
  const auto nan = hn::BitCast(d, hn::Set(du, 0x7fc0'0000u));
  return hn::BitCast(du, hn::IfThenElse(hn::IsNaN(x), nan, x));
}

// (bits + 0x8000) >> 16: half up, in magnitude.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void store_bf16(D d, V x, uint16_t* high) {
  const hn::RebindToSigned<D> di;
  const hn::RebindToUnsigned<D> du;
  const auto up = hn::ShiftRight<16>(hn::Add(canonical_bits(d, x), hn::Set(du, 0x8000u)));
  hn::StoreU(hn::DemoteTo(Half16<D>(), hn::BitCast(di, up)), Half16<D>(), high);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE void store_split(D d, V x, uint16_t* high, int16_t* low) {
  const hn::RebindToSigned<D> di;
  const hn::RebindToUnsigned<D> du;
  const auto bits = canonical_bits(d, x);
  const auto up = hn::ShiftRight<16>(hn::Add(bits, hn::Set(du, 0x8000u)));
  hn::StoreU(hn::DemoteTo(Half16<D>(), hn::BitCast(di, up)), Half16<D>(), high);
  hn::StoreU(hn::TruncateTo(Half16<D>(), bits), Half16<D>(), reinterpret_cast<uint16_t*>(low));
}

}  // namespace tidepool::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
