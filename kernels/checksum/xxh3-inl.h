// StripeHash computes XXH3's stripes in vectors. Per-target: include after <hwy/highway.h>, in each
// foreach_target pass.
#if defined(TIDEPOOL_KERNELS_CHECKSUM_XXH3_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TIDEPOOL_KERNELS_CHECKSUM_XXH3_INL_H_
#undef TIDEPOOL_KERNELS_CHECKSUM_XXH3_INL_H_
#else
#define TIDEPOOL_KERNELS_CHECKSUM_XXH3_INL_H_
#endif

#include <hwy/highway.h>

#include "kernels/checksum/xxh3_lanes.h"

#if HWY_TARGET != HWY_SCALAR  // a vector of one lane has no neighbour to exchange with

HWY_BEFORE_NAMESPACE();
namespace tidepool::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Holds the accumulators of one input in registers between load() and store().
class StripeHash {
  using D64 = hn::CappedTag<uint64_t, 8>;
  using D32 = hn::Repartition<uint32_t, D64>;
  using V64 = hn::Vec<D64>;

 public:
  static constexpr size_t vector_bytes = hn::MaxLanes(D64()) * 8;
  static constexpr size_t vectors = xxh3_stripe_bytes / vector_bytes;

  HWY_INLINE void load(const Xxh3Lanes& from) {
    for (size_t k = 0; k < vectors; ++k) {
      acc_[k] = hn::Load(D64(), from.lanes + k * hn::MaxLanes(D64()));
      data_[k] = hn::Zero(D64());
    }
  }
  HWY_INLINE void store(Xxh3Lanes& to) {
    for (size_t k = 0; k < vectors; ++k) hn::Store(swap_in(k), D64(), to.lanes + k * hn::MaxLanes(D64()));
  }

  // Adds vector `part` of a stripe whose secret is at `secret`.
  template <size_t part, class V>
  HWY_INLINE void add(V vector, const u8* secret) {
    const V64 data = hn::BitCast(D64(), vector);
    const V64 key =
        hn::Xor(data, hn::LoadU(D64(), reinterpret_cast<const uint64_t*>(secret + part * vector_bytes)));
    const V64 product = hn::MulEven(hn::BitCast(D32(), key), hn::BitCast(D32(), hn::ShiftRight<32>(key)));
    acc_[part] = hn::Add(acc_[part], product);
    data_[part] = hn::Add(data_[part], data);
  }

  // Called after the 16 stripes of a block.
  HWY_INLINE void scramble(const u8* secret) {
    const auto prime = hn::Set(D32(), xxh3_scramble_prime);
    for (size_t k = 0; k < vectors; ++k) {
      const V64 s = hn::LoadU(
          D64(), reinterpret_cast<const uint64_t*>(secret + xxh3_scramble_secret + k * vector_bytes));
      const V64 sum = swap_in(k);
      const V64 x = hn::Xor(hn::Xor(sum, hn::ShiftRight<47>(sum)), s);
      const V64 low = hn::MulEven(hn::BitCast(D32(), x), prime);
      const V64 high = hn::MulEven(hn::BitCast(D32(), hn::ShiftRight<32>(x)), prime);
      acc_[k] = hn::Add(low, hn::ShiftLeft<32>(high));
    }
  }

 private:
  // XXH3 adds each word to its neighbour's lane. Additions commute, so this is done once for all stripes.
  HWY_INLINE V64 swap_in(size_t k) {
    const V64 sum = hn::Add(acc_[k], hn::Shuffle01(data_[k]));
    data_[k] = hn::Zero(D64());
    return sum;
  }

  V64 acc_[vectors];   // products
  V64 data_[vectors];  // words not yet swapped in
};

}  // namespace tidepool::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HWY_TARGET != HWY_SCALAR
#endif
