// The formats of state slots in vectors, with the bits of slot_formats.h. Per-target: include after
// <hwy/highway.h>, inside each foreach_target pass. A line is slot_block_elements of a slot.
#if defined(TIDEPOOL_KERNELS_UPDATE_SLOT_FORMATS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TIDEPOOL_KERNELS_UPDATE_SLOT_FORMATS_INL_H_
#undef TIDEPOOL_KERNELS_UPDATE_SLOT_FORMATS_INL_H_
#else
#define TIDEPOOL_KERNELS_UPDATE_SLOT_FORMATS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstring>
#include <type_traits>

#include "kernels/update/slot_formats.h"
#include "kernels/update/tile_vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tidepool::HWY_NAMESPACE::rules {

using U = hn::RebindToUnsigned<F>;
using I = hn::RebindToSigned<F>;
using VU = hn::Vec<U>;
using VI = hn::Vec<I>;
using RandomPair = VectorPair<VU>;

// BlockRandom::of() for consecutive elements.
HWY_INLINE VU random_bits(u32 key, size_t element) {
  const U d;
  const VU spread = hn::LoadU(d, spread_elements.data() + element);
  const VU x = hn::Mul(hn::Xor(spread, hn::Set(d, key)), hn::Set(d, 0x846c'a68bu));
  return hn::Xor(x, hn::ShiftRight<15>(x));
}
// random_of() of the definition.
template <size_t slot, int count>
HWY_INLINE VU random_part(VU bits) {
  if constexpr (slot == 0) return hn::ShiftRight<32 - count>(bits);
  return hn::And(bits, hn::Set(U(), (1u << count) - 1));
}

// a * b + c, of which the product is exact: then one rounding and two give the same bits.
HWY_INLINE V exact_product_plus(V a, V b, V c) {
#if HWY_NATIVE_FMA
  return hn::MulAdd(a, b, c);
#else
  return hn::Add(hn::Mul(a, b), c);
#endif
}

// True if the format is rounded at random.
constexpr bool rounds(SlotFormat format) { return format != SlotFormat::f32; }
constexpr size_t line_bytes(SlotFormat format) {
  return has_codes(format) ? slot_block_bytes
                           : slot_block_elements * (format == SlotFormat::bf16 ? 2 : sizeof(float));
}

// The scales of a line with codes: those that its values have, and those that they get.
struct LineScale {
  float before, inverse;
};
// The larger of the codes without sign.
template <SlotFormat format>
HWY_INLINE VI larger_code(VI most, const std::byte* line, size_t element) {
  using Code = std::conditional_t<format == SlotFormat::signed8, int8_t, uint8_t>;
  const Code* codes = reinterpret_cast<const Code*>(line) + sizeof(float) + element;
  const VI code = hn::PromoteTo(I(), hn::LoadU(hn::Rebind<Code, F>(), codes));
  return hn::Max(most, format == SlotFormat::signed8 ? hn::Abs(code) : code);
}

// Replaces the bound of a line by the one that `bound_of` makes of the largest old value. `most`: from
// larger_code().
template <SlotFormat format, class Fn>
HWY_INLINE LineScale rescale(std::byte* line, VI most, Fn&& bound_of) {
  float bound;
  std::memcpy(&bound, line, sizeof(bound));
  const float before = scale_of_bound(bound);
  const u32 code = static_cast<u32>(hn::GetLane(hn::MaxOfLanes(I(), most)));
  bound = bound_of(codes_of(format).value(code) * before);
  const float scale = scale_of_bound(bound);
  if (!(scale > 0)) bound = scale;
  std::memcpy(line, &bound, sizeof(bound));
  return {before, inverse_of_scale(scale)};
}

template <SlotFormat format>
HWY_INLINE V value_of(VI code, float scale) {
  constexpr Codes codes = codes_of(format);
  const F d;
  const VI places = hn::ShiftLeft<code_dropped_bits>(format == SlotFormat::signed8 ? hn::Abs(code) : code);
  const V y = hn::BitCast(d, hn::Add(places, hn::Set(I(), codes.first)));
  const V x = exact_product_plus(y, hn::Set(d, scale), hn::Set(d, -codes.c() * scale));
  if constexpr (format == SlotFormat::unsigned8) return x;
  return hn::Or(x, hn::And(hn::SignBit(d), hn::BitCast(d, code)));
}
template <SlotFormat format>
HWY_INLINE V decode(const std::byte* line, size_t element, float scale) {
  using Code = std::conditional_t<format == SlotFormat::signed8, int8_t, uint8_t>;
  const Code* codes = reinterpret_cast<const Code*>(line) + sizeof(float) + element;
  return value_of<format>(hn::PromoteTo(I(), hn::LoadU(hn::Rebind<Code, F>(), codes)), scale);
}

// Elements [element, element + 2 lanes) of a line.
template <SlotFormat format>
HWY_INLINE Pair load_line(const std::byte* line, size_t element, const LineScale& scale) {
  if constexpr (format == SlotFormat::f32) {
    const float* values = reinterpret_cast<const float*>(line) + element;
    return {hn::LoadU(F(), values), hn::LoadU(F(), values + lanes)};
  } else if constexpr (format == SlotFormat::bf16) {
    return load_bf16_pair(F(), reinterpret_cast<const uint16_t*>(line) + element);
  } else {
    return {decode<format>(line, element, scale.before), decode<format>(line, element + lanes, scale.before)};
  }
}

#if HWY_TARGET != HWY_SCALAR
// bf16_at_random() of a pair.
HWY_INLINE hn::Vec<hn::Repartition<uint16_t, F>> bf16_pair(Pair x, RandomPair random) {
  const hn::Repartition<uint16_t, F> d16;
  VU first = hn::BitCast(U(), x.first), second = hn::BitCast(U(), x.second);
  // One test for both, as in split_pair().
  if (HWY_UNLIKELY(!hn::AllFalse(F(), hn::IsNaN(hn::Add(x.first, x.second)))))
    first = canonical_bits(F(), x.first), second = canonical_bits(F(), x.second);
  return hn::ConcatOdd(d16, hn::BitCast(d16, hn::Add(second, random.second)),
                       hn::BitCast(d16, hn::Add(first, random.first)));
}
#else
HWY_INLINE void store_bf16_at_random(V x, VU random, std::byte* to) {
  const u16 half = bf16_at_random(hn::GetLane(x), hn::GetLane(random));
  std::memcpy(to, &half, sizeof(half));
}
#endif

// The larger of the absolute values, as bits, so that NaN is the largest.
HWY_INLINE VI larger_bits(VI most, V x) { return hn::Max(most, hn::BitCast(I(), hn::Abs(x))); }

template <SlotFormat format>
HWY_INLINE void encode(V x, float inverse, VU random, std::byte* line, size_t element) {
  constexpr Codes codes = codes_of(format);
  const F d;
  const V y = exact_product_plus(hn::Abs(x), hn::Set(d, inverse), hn::Set(d, codes.c()));
  const VU places = hn::ShiftRight<code_dropped_bits>(hn::Add(hn::BitCast(U(), y), random));
  VU code =
      hn::Min(hn::Sub(places, hn::Set(U(), codes.first >> code_dropped_bits)), hn::Set(U(), codes.most));
  if constexpr (format == SlotFormat::signed8) {
    const VU sign = hn::BitCast(U(), hn::BroadcastSignBit(hn::BitCast(I(), x)));
    code = hn::Sub(hn::Xor(code, sign), sign);
  } else {
    const auto some = hn::RebindMask(U(), hn::Gt(x, hn::Zero(d)));
    code = hn::Max(code, hn::IfThenElseZero(some, hn::Set(U(), 1u)));
  }
  const hn::Rebind<uint8_t, F> d8;
  hn::StoreU(hn::TruncateTo(d8, code), d8, reinterpret_cast<uint8_t*>(line) + sizeof(float) + element);
}

}  // namespace tidepool::HWY_NAMESPACE::rules
HWY_AFTER_NAMESPACE();

#endif  // per target
