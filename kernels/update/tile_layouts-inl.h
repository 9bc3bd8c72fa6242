// Layouts of a tile's gradients, parameters and masters: how each precision is loaded, stored and hashed.
// Per-target: include after <hwy/highway.h>, inside each foreach_target pass.
#if defined(TIDEPOOL_KERNELS_UPDATE_TILE_LAYOUTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TIDEPOOL_KERNELS_UPDATE_TILE_LAYOUTS_INL_H_
#undef TIDEPOOL_KERNELS_UPDATE_TILE_LAYOUTS_INL_H_
#else
#define TIDEPOOL_KERNELS_UPDATE_TILE_LAYOUTS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <type_traits>

#include "kernels/checksum/xxh3-inl.h"
#include "kernels/simd/bf16-inl.h"
#include "kernels/simd/fp16-inl.h"
#include "kernels/update/tile_vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tidepool::HWY_NAMESPACE::rules {

struct NoHash {};
template <class H, size_t slots>
struct LineHashes {
  H param, master, state[slots];
};
// Addresses of the secrets of a step's stripes: two for four-byte arrays, one for two-byte arrays.
template <size_t slots>
struct StepSecrets {
  const u8 *param[2], *master[2], *state[slots][2];
};

// Hashes vector number `index` of a four-byte array in a step.
template <size_t index>
HWY_INLINE void hash_vector(NoHash&, V, const u8* const*) {}
template <size_t index, class H>
HWY_INLINE void hash_vector(H& hash, V x, const u8* const* secrets) {
  constexpr size_t byte = index * lanes * sizeof(float);
  hash.template add<byte % xxh3_stripe_bytes / H::vector_bytes>(x, secrets[byte / xxh3_stripe_bytes]);
}

struct Fp32 {
  static constexpr size_t grad_bytes = 4, param_bytes = 4, master_bytes = 0;

  static HWY_INLINE Pair load_grads(const std::byte* p) {
    const float* values = reinterpret_cast<const float*>(p);
    return {hn::LoadU(F(), values), hn::LoadU(F(), values + lanes)};
  }
  static HWY_INLINE Pair load_masters(const std::byte* p, const std::byte*) { return load_grads(p); }

  template <size_t pair, class H, size_t slots>
  static HWY_INLINE void store_masters(Pair x, std::byte* param, std::byte*, LineHashes<H, slots>& hashes,
                                       const StepSecrets<slots>& secrets) {
    hn::StoreU(x.first, F(), reinterpret_cast<float*>(param));
    hn::StoreU(x.second, F(), reinterpret_cast<float*>(param) + lanes);
    hash_vector<2 * pair>(hashes.param, x.first, secrets.param);
    hash_vector<2 * pair + 1>(hashes.param, x.second, secrets.param);
  }
};

struct Bf16 {
  static constexpr size_t grad_bytes = 2, param_bytes = 2, master_bytes = 2;

  static HWY_INLINE void store_half(V x, uint16_t* to) { store_bf16(F(), x, to); }

  static HWY_INLINE Pair load_grads(const std::byte* p) {
    return load_bf16_pair(F(), reinterpret_cast<const uint16_t*>(p));
  }
  static HWY_INLINE Pair load_masters(const std::byte* p, const std::byte* low) {
    return load_split_pair(F(), reinterpret_cast<const uint16_t*>(p), reinterpret_cast<const uint16_t*>(low));
  }

  template <size_t pair, class H, size_t slots>
  static HWY_INLINE void store_masters(Pair x, std::byte* param, std::byte* low, LineHashes<H, slots>& hashes,
                                       const StepSecrets<slots>& secrets) {
    uint16_t* high = reinterpret_cast<uint16_t*>(param);
#if HWY_TARGET == HWY_SCALAR
    int16_t* remainders = reinterpret_cast<int16_t*>(low);
    store_split(F(), x.first, high, remainders), store_split(F(), x.second, high + 1, remainders + 1);
    (void)hashes, (void)secrets;
#else
    const hn::Repartition<uint16_t, F> d16;
    const auto halves = split_pair(F(), x);
    hn::StoreU(halves.first, d16, high);
    hn::StoreU(halves.second, d16, reinterpret_cast<uint16_t*>(low));
    if constexpr (!std::is_same_v<H, NoHash>) {
      hashes.param.template add<pair>(halves.first, secrets.param[0]);
      hashes.master.template add<pair>(halves.second, secrets.master[0]);
    }
#endif
  }
};

// The parameter is the rounded master.
struct Fp16 {
  static constexpr size_t grad_bytes = 2, param_bytes = 2, master_bytes = 4;

  static HWY_INLINE void store_half(V x, uint16_t* to) { store_fp16(F(), x, to); }

  static HWY_INLINE Pair load_grads(const std::byte* p) {
    const uint16_t* halves = reinterpret_cast<const uint16_t*>(p);
    return {load_fp16(F(), halves), load_fp16(F(), halves + lanes)};
  }
  static HWY_INLINE Pair load_masters(const std::byte*, const std::byte* master) {
    return Fp32::load_grads(master);
  }

  template <size_t pair, class H, size_t slots>
  static HWY_INLINE void store_masters(Pair x, std::byte* param, std::byte* master,
                                       LineHashes<H, slots>& hashes, const StepSecrets<slots>& secrets) {
    uint16_t* halves = reinterpret_cast<uint16_t*>(param);
#if HWY_TARGET == HWY_SCALAR
    store_fp16(F(), x.first, halves), store_fp16(F(), x.second, halves + lanes);
#else
    const hn::Repartition<uint16_t, F> d16;
    const auto rounded = hn::Combine(d16, fp16_of(F(), x.second), fp16_of(F(), x.first));
    hn::StoreU(rounded, d16, halves);
    if constexpr (!std::is_same_v<H, NoHash>) hashes.param.template add<pair>(rounded, secrets.param[0]);
#endif
    hn::StoreU(x.first, F(), reinterpret_cast<float*>(master));
    hn::StoreU(x.second, F(), reinterpret_cast<float*>(master) + lanes);
    hash_vector<2 * pair>(hashes.master, x.first, secrets.master);
    hash_vector<2 * pair + 1>(hashes.master, x.second, secrets.master);
  }
};

// The gradient is fp32, and comes from a GradientSource.
template <class Layout>
struct WideGradient : Layout {
  static constexpr size_t grad_bytes = 4;

  static HWY_INLINE Pair load_grads(const std::byte* p) { return Fp32::load_grads(p); }
};

// Arrays of a direction: it replaces the gradient, and has the same type. There is no master.
struct Fp32Direction : Fp32 {};
// Nobody asks for a direction's checksum: it stays in memory until the update.
template <class Layout>
struct HalfDirection {
  static constexpr size_t grad_bytes = 2, param_bytes = 2, master_bytes = 0;

  static HWY_INLINE Pair load_grads(const std::byte* p) { return Layout::load_grads(p); }
  static HWY_INLINE Pair load_masters(const std::byte* p, const std::byte*) { return load_grads(p); }

  template <size_t pair, class H, size_t slots>
  static HWY_INLINE void store_masters(Pair x, std::byte* param, std::byte*, LineHashes<H, slots>&,
                                       const StepSecrets<slots>&) {
    uint16_t* halves = reinterpret_cast<uint16_t*>(param);
    Layout::store_half(x.first, halves), Layout::store_half(x.second, halves + lanes);
  }
};
using Bf16Direction = HalfDirection<Bf16>;
using Fp16Direction = HalfDirection<Fp16>;

}  // namespace tidepool::HWY_NAMESPACE::rules
HWY_AFTER_NAMESPACE();

#endif  // per target
