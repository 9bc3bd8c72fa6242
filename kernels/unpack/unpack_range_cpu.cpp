// Unpacks a range in vectors. Formats of 4 bits have 16 values per scale: these are rounded to bf16 once per
// block, and their low and high bytes become two tables, which one shuffle each looks up for 16 codes.
// Formats of 8 bits compute each value.
#include "kernels/unpack/unpack_range.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/simd/targets.h"
#include "tidepool/fp16.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/unpack/unpack_range_cpu.cpp"
#include <hwy/foreach_target.h>

#include "kernels/simd/bf16-inl.h"
#include "kernels/simd/fp16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tidepool::HWY_NAMESPACE {

// bf16 to nearest, ties to even, in the upper halves; the lower halves are undefined. NaN is 0x7fc0.
template <class D, class V = hn::Vec<D>>
HWY_INLINE hn::VFromD<hn::RebindToUnsigned<D>> nearest_bf16(D d, V x) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = canonical_bits(d, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  return hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fff)));
}

HWY_INLINE u16 nearest_bf16_of(float x) {
  if (x != x) return 0x7fc0;
  const u32 bits = std::bit_cast<u32>(x);
  return static_cast<u16>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Stores values by precision. `put` takes one value, `put_bits` vectors of rounded bits as nearest_bf16
// makes them, `put_halves` 8 values.
struct Bf16Out {
  u16* out;
  HWY_INLINE void put(u64 i, u16 value) const { out[i] = value; }
  template <class D, class VU>
  HWY_INLINE void put_bits(D, u64 i, VU bits) const {
    const hn::RebindToSigned<D> di;
    const Half16<D> d16;
    hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, hn::ShiftRight<16>(bits))), d16, out + i);
  }
#if HWY_TARGET != HWY_SCALAR
  template <class V16>
  HWY_INLINE void put_halves(u64 i, V16 values) const {
    hn::StoreU(values, hn::FixedTag<u16, 8>(), out + i);
  }
#endif
};

// Both wider forms get the value as a float whose lower half is 0.
template <class Self>
struct WideOut {
  HWY_INLINE void put(u64 i, u16 value) const { self().put_float(i, std::bit_cast<float>(u32{value} << 16)); }
  template <class D, class VU>
  HWY_INLINE void put_bits(D d, u64 i, VU bits) const {
    const hn::RebindToUnsigned<D> du;
    self().put_floats(d, i, hn::BitCast(d, hn::And(bits, hn::Set(du, 0xffff'0000u))));
  }
#if HWY_TARGET != HWY_SCALAR
  template <class V16>
  HWY_INLINE void put_halves(u64 i, V16 values) const {
    const hn::FixedTag<u16, 8> d16;
    const hn::FixedTag<float, 4> d;
    const auto zero = hn::Zero(d16);
    self().put_floats(d, i, hn::BitCast(d, hn::InterleaveLower(d16, zero, values)));
    self().put_floats(d, i + 4, hn::BitCast(d, hn::InterleaveUpper(d16, zero, values)));
  }
#endif

 private:
  HWY_INLINE const Self& self() const { return static_cast<const Self&>(*this); }
};
struct Fp32Out : WideOut<Fp32Out> {
  float* out;
  HWY_INLINE explicit Fp32Out(float* to) : out(to) {}
  HWY_INLINE void put_float(u64 i, float x) const { out[i] = x; }
  template <class D, class V>
  HWY_INLINE void put_floats(D d, u64 i, V x) const {
    hn::StoreU(x, d, out + i);
  }
};
struct Fp16Out : WideOut<Fp16Out> {
  u16* out;
  HWY_INLINE explicit Fp16Out(u16* to) : out(to) {}
  HWY_INLINE void put_float(u64 i, float x) const { out[i] = fp16_from_float(x); }
  template <class D, class V>
  HWY_INLINE void put_floats(D d, u64 i, V x) const {
    store_fp16(d, x, out + i);
  }
};

// A packed matrix's scale for one block of 4-bit codes.
HWY_INLINE float nibble_scale(const PackedMatrix& m, const PackedParts& parts, u64 block) {
  const u8* bytes = reinterpret_cast<const u8*>(parts.scales);
  if (m.packing == Packing::nf4) return reinterpret_cast<const float*>(parts.scales)[block];
  if (m.packing == Packing::nf4_double)
    return parts.table[bytes[block]] * parts.nested_scales[block / m.nested_block] +
           parts.table[nested_codes];
  // 2^-127 is a denormal.
  return std::bit_cast<float>(bytes[block] == 0 ? 0x0040'0000u : u32{bytes[block]} << 23);
}

// The 16 values of a block in bf16.
HWY_INLINE void fill_values(const float* book, float scale, u16* values) {
  const hn::CappedTag<float, 16> d;
  for (u64 i = 0; i < 16; i += hn::Lanes(d))
    Bf16Out{values}.put_bits(d, i, nearest_bf16(d, hn::Mul(hn::Load(d, book + i), hn::Set(d, scale))));
}

HWY_INLINE u32 nibble(const u8* codes, u64 at, bool high_first) {
  return (at % 2 == 0) == high_first ? codes[at / 2] >> 4 : codes[at / 2] & 15;
}

#if HWY_TARGET != HWY_SCALAR
using Vec8 = hn::Vec<hn::FixedTag<u8, 16>>;

// The low and the high bytes of 16 values in bf16.
struct ByteTables {
  Vec8 low, high;
};
HWY_INLINE ByteTables byte_tables(const u16* values) {
  const hn::FixedTag<u8, 16> d8;
  const auto first = hn::Load(d8, reinterpret_cast<const u8*>(values));
  const auto second = hn::Load(d8, reinterpret_cast<const u8*>(values + 8));
  return {hn::ConcatEven(d8, second, first), hn::ConcatOdd(d8, second, first)};
}

// 32 values, of the codes in 16 bytes.
template <bool high_first, class Out>
HWY_INLINE void put_32(const u8* codes, const ByteTables& tables, u64 i, const Out& out) {
  const hn::FixedTag<u8, 16> d8;
  const hn::FixedTag<u16, 8> d16;
  const auto bytes = hn::LoadU(d8, codes);
  const auto upper = hn::ShiftRight<4>(bytes), lower = hn::And(bytes, hn::Set(d8, 15));
  const auto first = high_first ? upper : lower, second = high_first ? lower : upper;
  const auto one = hn::InterleaveLower(d8, first, second), two = hn::InterleaveUpper(d8, first, second);
  const auto low_one = hn::TableLookupBytes(tables.low, one),
             high_one = hn::TableLookupBytes(tables.high, one);
  const auto low_two = hn::TableLookupBytes(tables.low, two),
             high_two = hn::TableLookupBytes(tables.high, two);
  out.put_halves(i, hn::BitCast(d16, hn::InterleaveLower(d8, low_one, high_one)));
  out.put_halves(i + 8, hn::BitCast(d16, hn::InterleaveUpper(d8, low_one, high_one)));
  out.put_halves(i + 16, hn::BitCast(d16, hn::InterleaveLower(d8, low_two, high_two)));
  out.put_halves(i + 24, hn::BitCast(d16, hn::InterleaveUpper(d8, low_two, high_two)));
}
#endif

template <bool high_first, class Out>
HWY_INLINE void put_block(const u8* codes, const u16* values, u64 at, u64 end, u64 begin, const Out& out) {
  for (; at < end && at % 2 != 0; ++at) out.put(at - begin, values[nibble(codes, at, high_first)]);
#if HWY_TARGET != HWY_SCALAR
  const ByteTables tables = byte_tables(values);
  for (; at + 32 <= end; at += 32) put_32<high_first>(codes + at / 2, tables, at - begin, out);
#endif
  for (; at < end; ++at) out.put(at - begin, values[nibble(codes, at, high_first)]);
}

template <bool high_first, class Out>
void unpack_nibbles(const PackedMatrix& m, const PackedParts& parts, u64 begin, u64 end, const Out& out) {
  alignas(64) float book[16];
  alignas(64) u16 values[16];
  std::copy_n(high_first ? nf4_values : mxfp4_values, 16, book);
  const u64 size = high_first ? m.block : mxfp4_block;
  u64 block = begin / size;
  for (u64 at = begin; at < end; ++block) {
    const u64 stop = std::min(end, (block + 1) * size);
    fill_values(book, nibble_scale(m, parts, block), values);
    put_block<high_first>(parts.codes, values, at, stop, begin, out);
    at = stop;
  }
}

// Values of e4m3fn codes in u32 lanes.
template <class D, class VU>
HWY_INLINE hn::Vec<D> e4m3_floats(D d, VU codes) {
  const hn::RebindToUnsigned<D> du;
  const auto magnitude = hn::And(codes, hn::Set(du, 0x7f));
  const auto shifted = hn::ShiftLeft<20>(magnitude);
  const auto normal = hn::Add(shifted, hn::Set(du, 120u << 23));  // the bias is 127 instead of 7
  // Below 2^-6 a code counts units of 2^-9, the last place of 2^-6.
  const auto counted = hn::BitCast(d, hn::Or(shifted, hn::Set(du, 121u << 23)));
  const auto small = hn::BitCast(du, hn::Sub(counted, hn::Set(d, 0x1p-6f)));
  auto bits = hn::IfThenElse(hn::Lt(magnitude, hn::Set(du, 8)), small, normal);
  bits = hn::IfThenElse(hn::Eq(magnitude, hn::Set(du, 0x7f)), hn::Set(du, 0x7fc0'0000u), bits);
  return hn::BitCast(d, hn::Or(bits, hn::ShiftLeft<24>(hn::Xor(codes, magnitude))));
}

struct E4m3Row {
  float scale;
  template <class D>
  HWY_INLINE hn::Vec<D> values(D d, const u8* codes) const {
    const hn::RebindToUnsigned<D> du;
    const auto wide = hn::PromoteTo(du, hn::LoadU(hn::Rebind<u8, D>(), codes));
    return hn::Mul(e4m3_floats(d, wide), hn::Set(d, scale));
  }
};
struct Int8Row {
  float scale;
  template <class D>
  HWY_INLINE hn::Vec<D> values(D d, const u8* codes) const {
    const hn::RebindToSigned<D> di;
    const hn::Rebind<int8_t, D> d8;
    const auto wide = hn::PromoteTo(di, hn::LoadU(d8, reinterpret_cast<const int8_t*>(codes)));
    return hn::Mul(hn::Mul(hn::ConvertTo(d, wide), hn::Set(d, scale)), hn::Set(d, int8_factor));
  }
};

template <class Row, class Out>
HWY_INLINE void put_row(const Row& row, const u8* codes, u64 i, u64 n, const Out& out) {
  const hn::ScalableTag<float> d;
  const u64 lanes = hn::Lanes(d);
  u64 c = 0;
  for (; c + lanes <= n; c += lanes) out.put_bits(d, i + c, nearest_bf16(d, row.values(d, codes + c)));
  const hn::CappedTag<float, 1> one;
  for (; c < n; ++c) out.put_bits(one, i + c, nearest_bf16(one, row.values(one, codes + c)));
}

// (1 + m / 8) 2^-7, the values of exponent 0 if it were like the others, and m 2^-9, those it has.
alignas(64) constexpr float e4m3_book[16] = {0x1.0p-7f, 0x1.2p-7f, 0x1.4p-7f, 0x1.6p-7f, 0x1.8p-7f, 0x1.ap-7f,
                                             0x1.cp-7f, 0x1.ep-7f, 0,         0x1p-9f,   0x2p-9f,   0x3p-9f,
                                             0x4p-9f,   0x5p-9f,   0x6p-9f,   0x7p-9f};

#if HWY_TARGET != HWY_SCALAR
// Values of 16 codes: a value of the table, plus the exponent.
// RETURNS: false, and writes nothing, if a code is NaN.
template <class Out>
HWY_INLINE bool put_e4m3_16(const u8* codes, const ByteTables& tables, u64 i, const Out& out) {
  const hn::FixedTag<u8, 16> d8;
  const hn::FixedTag<u16, 8> d16;
  const auto code = hn::LoadU(d8, codes);
  const auto magnitude = hn::And(code, hn::Set(d8, 0x7f)), sign = hn::Xor(code, magnitude);
  if (HWY_UNLIKELY(!hn::AllFalse(d8, hn::Eq(magnitude, hn::Set(d8, 0x7f))))) return false;
  const auto exponent = hn::And(magnitude, hn::Set(d8, 0x78));
  const auto lowest = hn::VecFromMask(d8, hn::Eq(exponent, hn::Zero(d8)));
  const auto index = hn::Or(hn::And(code, hn::Set(d8, 7)), hn::And(lowest, hn::Set(d8, 8)));
  const auto low = hn::TableLookupBytes(tables.low, index);
  const auto high = hn::Xor(hn::TableLookupBytes(tables.high, index), sign);
  const auto put = [&](u64 at, auto values, auto exponents) HWY_ATTR {
    out.put_halves(at, hn::Add(hn::BitCast(d16, values), hn::ShiftLeft<4>(hn::BitCast(d16, exponents))));
  };
  const auto zero = hn::Zero(d8);
  put(i, hn::InterleaveLower(d8, low, high), hn::InterleaveLower(d8, exponent, zero));
  put(i + 8, hn::InterleaveUpper(d8, low, high), hn::InterleaveUpper(d8, exponent, zero));
  return true;
}
#endif

// Values of codes with one scale.
template <class Out>
HWY_INLINE void put_e4m3(float scale, const u8* codes, u64 i, u64 n, const Out& out) {
  u64 c = 0;
#if HWY_TARGET != HWY_SCALAR
  // So that all values of exponents 0 to 15 are normal: 480 2^118 < 2^127.
  const bool normal = std::abs(scale) >= 0x1p-119f && std::abs(scale) <= 0x1p118f;
  if (normal && n >= 16) {
    alignas(64) u16 values[16];
    fill_values(e4m3_book, scale, values);
    const ByteTables tables = byte_tables(values);
    for (; c + 16 <= n; c += 16)
      if (!put_e4m3_16(codes + c, tables, i + c, out)) put_row(E4m3Row{scale}, codes + c, i + c, 16, out);
  }
#endif
  put_row(E4m3Row{scale}, codes + c, i + c, n - c, out);
}

template <class Out>
void unpack_bytes(const PackedMatrix& m, const PackedParts& parts, u64 begin, u64 end, const Out& out) {
  const bool fp8 = m.packing == Packing::fp8_block;
  const float* scales = reinterpret_cast<const float*>(parts.scales);
  const u64 run = fp8 ? m.block_columns : m.columns;  // codes of a row with the same scale
  const u64 scales_per_row = div_up(m.columns, run);
  u64 row = begin / m.columns, column = begin % m.columns;
  for (u64 at = begin; at < end;) {
    const u64 block = column / run, stop = std::min<u64>(m.columns, (block + 1) * run);
    const u64 n = std::min(end - at, stop - column);
    if (fp8)
      put_e4m3(scales[row / m.block_rows * scales_per_row + block], parts.codes + at, at - begin, n, out);
    else
      put_row(Int8Row{scales[row]}, parts.codes + at, at - begin, n, out);
    at += n, column += n;
    if (column == m.columns) ++row, column = 0;
  }
}

template <class Out>
void unpack_to(const PackedMatrix& m, const PackedParts& parts, u64 begin, u64 end, const Out& out) {
  if (m.packing == Packing::mxfp4) return unpack_nibbles<false>(m, parts, begin, end, out);
  if (is_nf4(m.packing)) return unpack_nibbles<true>(m, parts, begin, end, out);
  unpack_bytes(m, parts, begin, end, out);
}

void lanes_of_unpack(const PackedMatrix& m, const PackedParts& parts, u64 begin, u64 end, Values out) {
  if (out.precision == Precision::bf16) return unpack_to(m, parts, begin, end, Bf16Out{out.bf16()});
  if (out.precision == Precision::fp32) return unpack_to(m, parts, begin, end, Fp32Out(out.fp32()));
  unpack_to(m, parts, begin, end, Fp16Out(reinterpret_cast<u16*>(out.data)));
}

}  // namespace tidepool::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tidepool {

HWY_EXPORT(lanes_of_unpack);

void unpack_range(const PackedMatrix& m, const std::byte* packed, u64 begin, u64 elements, Values out) {
  HWY_DYNAMIC_DISPATCH(lanes_of_unpack)(m, parts_of(m, packed), begin, begin + elements, out);
}

}  // namespace tidepool
#endif
