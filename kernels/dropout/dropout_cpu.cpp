#include "kernels/dropout/dropout.h"

#include <algorithm>

#include "kernels/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/dropout/dropout_cpu.cpp"
#include <hwy/foreach_target.h>

#include "kernels/dropout/philox.h"
#include "kernels/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tidepool::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

// Fallback without vectors, so without lanes to cross.
template <class D>
HWY_INLINE void philox_lanes(D, const PhiloxKey& key, u64 first, u32* bits) {
  const PhiloxBlock block = philox(key, first);
  std::copy(block.begin(), block.end(), bits);
}

#else

// Upper halves of the 64-bit products with a constant.
template <class D, class V>
HWY_INLINE V mul_high(D d, V a, u32 constant) {
  const hn::Repartition<u64, D> wide;
  const V k = hn::Set(d, constant);
  const auto even = hn::MulEven(a, k);
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, a))), k);
  return hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even)));
}

// Bits of blocks [first, first + lanes): four words per block, in element order.
template <class D>
HWY_INLINE void philox_lanes(D d, const PhiloxKey& key, u64 first, u32* bits) {
  using V = hn::Vec<D>;
  const V low = hn::Set(d, static_cast<u32>(first));
  V c0 = hn::Add(low, hn::Iota(d, 0));
  V c1 = hn::Set(d, static_cast<u32>(first >> 32));
  const V carried = hn::Add(c1, hn::Set(d, 1));
  c1 = hn::IfThenElse(hn::Lt(c0, low), carried, c1);
  V c2 = hn::Set(d, key.tensor), c3 = hn::Set(d, key.micro_batch);
  u32 key_low = key.low, key_high = key.high;
  for (u32 round = 0; round < philox_rounds; ++round) {
    const V a_high = mul_high(d, c0, philox_multiplier_0),
            a_low = hn::Mul(c0, hn::Set(d, philox_multiplier_0));
    const V b_high = mul_high(d, c2, philox_multiplier_1),
            b_low = hn::Mul(c2, hn::Set(d, philox_multiplier_1));
    c0 = hn::Xor(hn::Xor(b_high, c1), hn::Set(d, key_low));
    c1 = b_low;
    c2 = hn::Xor(hn::Xor(a_high, c3), hn::Set(d, key_high));
    c3 = a_low;
    key_low += philox_weyl_0;
    key_high += philox_weyl_1;
  }
  hn::StoreInterleaved4(c0, c1, c2, c3, d, bits);
}

#endif

// Calls fn(bits, done, count) for pieces of n elements: `bits` are those of the elements from first + done
// on.
template <class Fn>
HWY_INLINE void for_bits(const PhiloxKey& key, u64 first, u64 n, Fn fn) {
  constexpr u64 piece = 1024;  // elements whose bits are computed at a time
  const hn::ScalableTag<u32> du;
  HWY_ALIGN u32 bits[piece + 4 * hn::MaxLanes(du)];
  for (u64 done = 0; done < n;) {
    const u64 block = (first + done) / 4, skip = (first + done) % 4;
    const u64 count = std::min(n - done, piece - skip);
    for (u64 i = 0; i < skip + count; i += 4 * hn::Lanes(du)) philox_lanes(du, key, block + i / 4, bits + i);
    fn(bits + skip, done, count);
    done += count;
  }
}

void dropout_lanes(const DropoutRow& row, u64 first, const float* x, float* y, u64 n) {
  for_bits(row.key, first, n, [&](const u32* bits, u64 done, u64 count) HWY_ATTR {
    for_lanes(count, [&](auto d, u64 i) HWY_ATTR {
      const hn::RebindToUnsigned<decltype(d)> u;
      const auto drawn = hn::LoadU(u, bits + i);
      const auto dropped =
          hn::MaskFromVec(hn::BitCast(d, hn::VecFromMask(u, hn::Lt(drawn, hn::Set(u, row.threshold)))));
      const auto scaled = hn::Mul(hn::LoadU(d, x + done + i), hn::Set(d, row.scale));
      hn::StoreU(hn::IfThenZeroElse(dropped, scaled), d, y + done + i);
    });
  });
}

void noise_lanes(const PhiloxKey& key, float magnitude, u64 first, float* y, u64 n) {
  for_bits(key, first, n, [&](const u32* bits, u64 done, u64 count) HWY_ATTR {
    for (u64 i = 0; i < count; ++i) y[done + i] += noise_of(bits[i], magnitude);
  });
}

}  // namespace tidepool::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tidepool {

HWY_EXPORT(dropout_lanes);

void dropout_row(const Dropout& dropout, u64 first, const float* x, float* y, u64 n) {
  HWY_DYNAMIC_DISPATCH(dropout_lanes)(dropout_row_of(dropout), first, x, y, n);
}

HWY_EXPORT(noise_lanes);

void add_noise_row(const UniformNoise& noise, u64 first, float* y, u64 n) {
  HWY_DYNAMIC_DISPATCH(noise_lanes)(philox_key(noise.key), noise.magnitude, first, y, n);
}

}  // namespace tidepool
#endif
