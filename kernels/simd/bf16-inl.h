// bf16 with a signed remainder, in vectors. Per-target: include after <hwy/highway.h>, inside each
// foreach_target pass.
#if defined(TIDEPOOL_KERNELS_SIMD_BF16_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TIDEPOOL_KERNELS_SIMD_BF16_INL_H_
#undef TIDEPOOL_KERNELS_SIMD_BF16_INL_H_
#else
#define TIDEPOOL_KERNELS_SIMD_BF16_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

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

// RETURNS: the bits of x, with NaN canonical.
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

// Two neighbouring vectors of floats. Their halves fill whole vectors of u16.
template <class V>
struct VectorPair {
  V first, second;
};

#if HWY_TARGET == HWY_SCALAR

template <class D, class V = hn::Vec<D>>
HWY_INLINE VectorPair<V> load_bf16_pair(D d, const uint16_t* high) {
  return {load_bf16(d, high), load_bf16(d, high + 1)};
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE VectorPair<V> load_split_pair(D d, const uint16_t* high, const uint16_t* low) {
  const int16_t* remainders = reinterpret_cast<const int16_t*>(low);
  return {load_split(d, high, remainders), load_split(d, high + 1, remainders + 1)};
}

#else

// Each u32 of the result has an element of `low` in its lower half and one of `high` in its upper half, in
// order.
template <class D16, class V16 = hn::Vec<D16>>
HWY_INLINE VectorPair<V16> interleave_halves(D16 d16, V16 high, V16 low) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  // One instruction per vector. The portable code takes two, in the units that updates need most.
  alignas(64) static constexpr uint16_t order[2][32] = {
      {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
       8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47},
      {16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55,
       24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63}};
  const __m512i first = hn::Load(d16, order[0]).raw, second = hn::Load(d16, order[1]).raw;
  return {V16{_mm512_permutex2var_epi16(low.raw, first, high.raw)},
          V16{_mm512_permutex2var_epi16(low.raw, second, high.raw)}};
#elif HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  const V16 even = hn::InterleaveLower(d16, low, high), odd = hn::InterleaveUpper(d16, low, high);
  return {hn::ConcatLowerLower(d16, odd, even), hn::ConcatUpperUpper(d16, odd, even)};
#else
  return {hn::InterleaveLower(d16, low, high), hn::InterleaveUpper(d16, low, high)};  // 128-bit vectors
#endif
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE VectorPair<V> load_bf16_pair(D d, const uint16_t* high) {
  const hn::Repartition<uint16_t, D> d16;
  const auto bits = interleave_halves(d16, hn::LoadU(d16, high), hn::Zero(d16));
  return {hn::BitCast(d, bits.first), hn::BitCast(d, bits.second)};
}

// (high << 16) + remainder. The remainder's sign bit is flipped, which adds 0x8000; subtracting `excess`
// corrects that.
template <class D, class V = hn::Vec<D>>
HWY_INLINE VectorPair<V> load_split_pair(D d, const uint16_t* high, const uint16_t* low) {
  const hn::Repartition<uint16_t, D> d16;
  const hn::RebindToUnsigned<D> du;
  const auto flipped = hn::Xor(hn::LoadU(d16, low), hn::Set(d16, 0x8000));
  const auto bits = interleave_halves(d16, hn::LoadU(d16, high), flipped);
  const auto excess = hn::Set(du, 0x8000u);
  return {hn::BitCast(d, hn::Sub(hn::BitCast(du, bits.first), excess)),
          hn::BitCast(d, hn::Sub(hn::BitCast(du, bits.second), excess))};
}

// Upper halves and remainders of two vectors, in order.
template <class D, class V = hn::Vec<D>>
HWY_INLINE VectorPair<hn::VFromD<hn::Repartition<uint16_t, D>>> split_pair(D d, VectorPair<V> x) {
  const hn::Repartition<uint16_t, D> d16;
  const hn::RebindToUnsigned<D> du;
  auto first = hn::BitCast(du, x.first), second = hn::BitCast(du, x.second);
  // One test for both. (Opposite infinities also fail it; that costs time, not correctness.)
  if (HWY_UNLIKELY(!hn::AllFalse(d, hn::IsNaN(hn::Add(x.first, x.second)))))
    first = canonical_bits(d, x.first), second = canonical_bits(d, x.second);
  const auto half = hn::Set(du, 0x8000u);
  return {hn::ConcatOdd(d16, hn::BitCast(d16, hn::Add(second, half)), hn::BitCast(d16, hn::Add(first, half))),
          hn::ConcatEven(d16, hn::BitCast(d16, second), hn::BitCast(d16, first))};
}

#endif  // HWY_TARGET == HWY_SCALAR

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
