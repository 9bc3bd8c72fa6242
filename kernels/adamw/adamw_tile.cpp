// The sum: fp32 reads 16 and writes 12 bytes per parameter; at 50 GB/s per core (a fast server's) that takes
// 0.56 ns. The arithmetic alone takes 0.28 ns, nearly all of it in the unit for square roots and divisions.
// XXH3 of the 12 bytes takes 0.2 ns more if it reads them back from the cache, and memory idles meanwhile.
// Computed from registers, between roots and divisions, it takes 0.06 ns.
//
// Rejected as slower: prefetch instructions (each distance and kind, 5 to 25 %), non-temporal stores (half
// the speed: the lines are in the cache, because they were read), tiles of one kind at a time.
#include "kernels/adamw/adamw_tile.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "kernels/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/adamw/adamw_tile.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/checksum/xxh3-inl.h"
#include "kernels/simd/bf16-inl.h"
#include "kernels/simd/fp16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tidepool::HWY_NAMESPACE {

using F = hn::CappedTag<float, 16>;
using V = hn::Vec<F>;
using Pair = VectorPair<V>;
constexpr size_t lanes = hn::MaxLanes(F());

// A step fills whole stripes of every kind: 32 elements, in pairs of vectors.
constexpr size_t step_elements = 32;
constexpr size_t step_pairs = step_elements / (2 * lanes);
constexpr size_t line_steps = adamw_line_elements / step_elements;

struct Scalars {
  V beta1, grad_to_momentum, beta2, grad_to_root, root_factor, root_offset;

  explicit HWY_INLINE Scalars(const AdamWScalars& s)
      : beta1(hn::Set(F(), s.beta1)),
        grad_to_momentum(hn::Set(F(), s.grad_to_momentum)),
        beta2(hn::Set(F(), s.beta2)),
        grad_to_root(hn::Set(F(), s.grad_to_root)),
        root_factor(hn::Set(F(), s.root_factor)),
        root_offset(hn::Set(F(), s.root_offset)) {}
};

// a * b + c and a * b - c, rounded once. Without the instruction libm computes them, slowly but with the same
// bits.
#if HWY_NATIVE_FMA
HWY_INLINE V fma(V a, V b, V c) { return hn::MulAdd(a, b, c); }
HWY_INLINE V fms(V a, V b, V c) { return hn::MulSub(a, b, c); }
#else
HWY_INLINE V fma(V a, V b, V c) {
  HWY_ALIGN float x[lanes], y[lanes], z[lanes];
  hn::Store(a, F(), x), hn::Store(b, F(), y), hn::Store(c, F(), z);
  for (size_t i = 0; i < lanes; ++i) x[i] = std::fma(x[i], y[i], z[i]);
  return hn::Load(F(), x);
}
HWY_INLINE V fms(V a, V b, V c) { return fma(a, b, hn::Neg(c)); }
#endif

// In: gradient, decay factor, parameter, momentum, variance. Out: the new p, m and v.
HWY_INLINE void update(const Scalars& s, V grad, V decay, V& p, V& m, V& v) {
  const V root = hn::Mul(s.grad_to_root, grad);
  m = fma(s.beta1, m, hn::Mul(s.grad_to_momentum, grad));
  v = fma(root, root, hn::Mul(s.beta2, v));
  p = fms(decay, p, hn::Div(m, fma(hn::Sqrt(v), s.root_factor, s.root_offset)));
}

struct NoHash {};
template <class H>
struct LineHashes {
  H param, master, momentum, variance;
};
// Addresses of the secrets of a step's stripes: two for four-byte kinds, one for two-byte kinds.
struct StepSecrets {
  const u8 *param[2], *master[2], *momentum[2], *variance[2];
};

// Hashes vector number `index` of a four-byte kind in a step.
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

  template <size_t pair, class H>
  static HWY_INLINE void store_masters(Pair x, std::byte* param, std::byte*, LineHashes<H>& hashes,
                                       const StepSecrets& secrets) {
    hn::StoreU(x.first, F(), reinterpret_cast<float*>(param));
    hn::StoreU(x.second, F(), reinterpret_cast<float*>(param) + lanes);
    hash_vector<2 * pair>(hashes.param, x.first, secrets.param);
    hash_vector<2 * pair + 1>(hashes.param, x.second, secrets.param);
  }
};

struct Bf16 {
  static constexpr size_t grad_bytes = 2, param_bytes = 2, master_bytes = 2;

  static HWY_INLINE Pair load_grads(const std::byte* p) {
    return load_bf16_pair(F(), reinterpret_cast<const uint16_t*>(p));
  }
  static HWY_INLINE Pair load_masters(const std::byte* p, const std::byte* low) {
    return load_split_pair(F(), reinterpret_cast<const uint16_t*>(p), reinterpret_cast<const uint16_t*>(low));
  }

  template <size_t pair, class H>
  static HWY_INLINE void store_masters(Pair x, std::byte* param, std::byte* low, LineHashes<H>& hashes,
                                       const StepSecrets& secrets) {
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

  static HWY_INLINE Pair load_grads(const std::byte* p) {
    const uint16_t* halves = reinterpret_cast<const uint16_t*>(p);
    return {load_fp16(F(), halves), load_fp16(F(), halves + lanes)};
  }
  static HWY_INLINE Pair load_masters(const std::byte*, const std::byte* master) {
    return Fp32::load_grads(master);
  }

  template <size_t pair, class H>
  static HWY_INLINE void store_masters(Pair x, std::byte* param, std::byte* master, LineHashes<H>& hashes,
                                       const StepSecrets& secrets) {
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

// Updates pair `pair` and the following pairs of the step that begins at element i of the tile.
template <class Layout, size_t pair, class H>
HWY_INLINE void step(const AdamWTile& t, size_t i, const float* factors, const Scalars& s,
                     LineHashes<H>& hashes, const StepSecrets& secrets) {
  const size_t e = i + pair * 2 * lanes;
  std::byte* param = t.param + e * Layout::param_bytes;
  std::byte* master = t.master + e * Layout::master_bytes;
  float *momentum = t.momentum + e, *variance = t.variance + e;
  const float* factor = factors + pair * 2 * lanes;
  const Pair g = Layout::load_grads(t.grad + e * Layout::grad_bytes);
  Pair p = Layout::load_masters(param, master);
  V m0 = hn::LoadU(F(), momentum), m1 = hn::LoadU(F(), momentum + lanes);
  V v0 = hn::LoadU(F(), variance), v1 = hn::LoadU(F(), variance + lanes);
  update(s, g.first, hn::LoadU(F(), factor), p.first, m0, v0);
  update(s, g.second, hn::LoadU(F(), factor + lanes), p.second, m1, v1);
  hn::StoreU(m0, F(), momentum), hn::StoreU(m1, F(), momentum + lanes);
  hn::StoreU(v0, F(), variance), hn::StoreU(v1, F(), variance + lanes);
  hash_vector<2 * pair>(hashes.momentum, m0, secrets.momentum);
  hash_vector<2 * pair + 1>(hashes.momentum, m1, secrets.momentum);
  hash_vector<2 * pair>(hashes.variance, v0, secrets.variance);
  hash_vector<2 * pair + 1>(hashes.variance, v1, secrets.variance);
  Layout::template store_masters<pair>(p, param, master, hashes, secrets);
  if constexpr (pair + 1 < step_pairs) step<Layout, pair + 1>(t, i, factors, s, hashes, secrets);
}

template <class Layout>
HWY_NOINLINE void plain_line(const AdamWTile& t, size_t i, const float* factors,
                             const AdamWScalars& scalars) {
  const Scalars s(scalars);
  LineHashes<NoHash> nothing;
  for (size_t k = 0; k < adamw_line_elements; k += step_elements)
    step<Layout, 0>(t, i + k, factors + k, s, nothing, {});
}

#if HWY_TARGET != HWY_SCALAR
// RETURNS: secrets of step k of a line. For four-byte kinds a line is a block of 16 stripes, for two-byte
// kinds half a block: `half` is 0 or 1. `last`: the step ends the tile.
template <class Layout>
HWY_INLINE StepSecrets secrets_of(const AdamWTileHashes& h, size_t k, size_t half, bool last) {
  const size_t first = 2 * k * xxh3_secret_step;
  const size_t second = last ? xxh3_last_stripe_secret : first + xxh3_secret_step;
  const size_t narrow = last ? xxh3_last_stripe_secret : (half * line_steps + k) * xxh3_secret_step;
  return {
      .param = {h.param.secret + (Layout::param_bytes == 2 ? narrow : first), h.param.secret + second},
      .master = {h.master.secret + (Layout::master_bytes == 2 ? narrow : first), h.master.secret + second},
      .momentum = {h.momentum.secret + first, h.momentum.secret + second},
      .variance = {h.variance.secret + first, h.variance.secret + second}};
}

template <class Layout>
HWY_NOINLINE void hashed_line(const AdamWTile& t, size_t i, const float* factors, const AdamWScalars& scalars,
                              AdamWTileHashes& h) {
  constexpr bool narrow = Layout::param_bytes == 2, narrow_master = Layout::master_bytes == 2;
  constexpr size_t end = line_steps - 1;
  const bool last = i + adamw_line_elements == t.elements;
  const size_t half = i / adamw_line_elements % 2;
  const Scalars s(scalars);
  LineHashes<StripeHash> hashes;
  hashes.param.load(h.param), hashes.momentum.load(h.momentum), hashes.variance.load(h.variance);
  if constexpr (Layout::master_bytes != 0) hashes.master.load(h.master);
  for (size_t k = 0; k < end; ++k)
    step<Layout, 0>(t, i + k * step_elements, factors + k * step_elements, s, hashes,
                    secrets_of<Layout>(h, k, half, false));
  step<Layout, 0>(t, i + end * step_elements, factors + end * step_elements, s, hashes,
                  secrets_of<Layout>(h, end, half, last));
  if (!last) {
    hashes.momentum.scramble(h.momentum.secret), hashes.variance.scramble(h.variance.secret);
    if (!narrow || half == 1) hashes.param.scramble(h.param.secret);
    if constexpr (Layout::master_bytes != 0)
      if (!narrow_master || half == 1) hashes.master.scramble(h.master.secret);
  }
  hashes.param.store(h.param), hashes.momentum.store(h.momentum), hashes.variance.store(h.variance);
  if constexpr (Layout::master_bytes != 0) hashes.master.store(h.master);
}
#endif

// Fills in the factors of the line that begins at `line_begin` of the tile: s.decay or 1.
// RETURNS: the end of the lines for which these factors hold. A segment is thousands of lines long, so
// factors are rarely filled in.
u64 fill_factors(const AdamWTile& t, u64 line_begin, float decay, float* factors) {
  const u64 begin = t.chunk_begin + line_begin, end = begin + adamw_line_elements;
  auto segment = std::upper_bound(t.segments.begin(), t.segments.end(), begin,
                                  [](u64 at, const DecaySegment& s) { return at < s.end; });
  const u64 hold_until = segment->end - t.chunk_begin;
  for (u64 at = begin; at < end && segment != t.segments.end(); at = segment->end, ++segment)
    std::fill(factors + (at - begin), factors + (std::min(end, segment->end) - begin),
              segment->decay ? decay : 1.0f);
  return hold_until;
}

// The last, short line goes through buffers, so that the same instructions update it.
template <class Layout>
HWY_NOINLINE void short_line(const AdamWTile& t, size_t i, const float* factors, const AdamWScalars& s) {
  constexpr size_t n_max = adamw_line_elements;
  HWY_ALIGN std::byte grad[n_max * 4] = {}, param[n_max * 4] = {}, master[n_max * 4] = {};
  HWY_ALIGN float momentum[n_max] = {}, variance[n_max] = {};
  const size_t n = t.elements - i;
  std::memcpy(grad, t.grad + i * Layout::grad_bytes, n * Layout::grad_bytes);
  std::memcpy(param, t.param + i * Layout::param_bytes, n * Layout::param_bytes);
  if (Layout::master_bytes != 0)
    std::memcpy(master, t.master + i * Layout::master_bytes, n * Layout::master_bytes);
  std::memcpy(momentum, t.momentum + i, n * sizeof(float));
  std::memcpy(variance, t.variance + i, n * sizeof(float));
  plain_line<Layout>({.elements = n_max,
                      .grad = grad,
                      .param = param,
                      .master = master,
                      .momentum = momentum,
                      .variance = variance,
                      .segments = {}},
                     0, factors, s);
  std::memcpy(t.param + i * Layout::param_bytes, param, n * Layout::param_bytes);
  if (Layout::master_bytes != 0)
    std::memcpy(t.master + i * Layout::master_bytes, master, n * Layout::master_bytes);
  std::memcpy(t.momentum + i, momentum, n * sizeof(float));
  std::memcpy(t.variance + i, variance, n * sizeof(float));
}

template <class Layout>
bool tile(const AdamWTile& t, const AdamWScalars& s, AdamWTileHashes* hashes) {
  // Two-byte kinds fill XXH3's blocks of 1 KiB every other line.
  constexpr size_t hashed_multiple = adamw_line_elements * (Layout::param_bytes == 2 ? 2 : 1);
  const bool hashed = HWY_TARGET != HWY_SCALAR && hashes != nullptr && t.elements % hashed_multiple == 0;
  HWY_ALIGN float factors[adamw_line_elements] = {};
  u64 factors_until = 0;
  for (size_t i = 0; i < t.elements; i += adamw_line_elements) {
    if (i + adamw_line_elements > factors_until) factors_until = fill_factors(t, i, s.decay, factors);
    if (t.elements - i < adamw_line_elements) short_line<Layout>(t, i, factors, s);
#if HWY_TARGET != HWY_SCALAR
    else if (hashed)
      hashed_line<Layout>(t, i, factors, s, *hashes);
#endif
    else
      plain_line<Layout>(t, i, factors, s);
  }
  return hashed;
}

bool tile_fp32(const AdamWTile& t, const AdamWScalars& s, AdamWTileHashes* hashes) {
  return tile<Fp32>(t, s, hashes);
}
bool tile_bf16(const AdamWTile& t, const AdamWScalars& s, AdamWTileHashes* hashes) {
  return tile<Bf16>(t, s, hashes);
}
bool tile_fp16(const AdamWTile& t, const AdamWScalars& s, AdamWTileHashes* hashes) {
  return tile<Fp16>(t, s, hashes);
}

}  // namespace tidepool::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tidepool {

HWY_EXPORT(tile_fp32);
HWY_EXPORT(tile_bf16);
HWY_EXPORT(tile_fp16);

bool adamw_tile(const AdamWTile& tile, Precision precision, const AdamWScalars& scalars,
                AdamWTileHashes* hashes) {
  switch (precision) {
    case Precision::fp32:
      return HWY_DYNAMIC_DISPATCH(tile_fp32)(tile, scalars, hashes);
    case Precision::bf16:
      return HWY_DYNAMIC_DISPATCH(tile_bf16)(tile, scalars, hashes);
    case Precision::fp16:
      break;
  }
  return HWY_DYNAMIC_DISPATCH(tile_fp16)(tile, scalars, hashes);
}

}  // namespace tidepool
#endif
