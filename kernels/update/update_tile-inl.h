// rule_tile<Rule>() runs a rule's arithmetic over a tile, with checksums of the new values. Each rule's
// source includes this header once per target. A rule is:
//
//   struct Rule {
//     static constexpr size_t slots = 2;                 // fp32 arrays beside the parameters
//     explicit Rule(const UpdateScalars&);               // the scalars, as vectors
//     // In: gradient, decay factor, parameter (fp32), state. Out: the new parameter and state.
//     void update(V grad, V decay, V& param, V (&state)[slots]) const;
//   };
#if defined(TIDEPOOL_UPDATE_TILE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TIDEPOOL_UPDATE_TILE_INL_H
#undef TIDEPOOL_UPDATE_TILE_INL_H
#else
#define TIDEPOOL_UPDATE_TILE_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/checksum/xxh3-inl.h"
#include "kernels/simd/bf16-inl.h"
#include "kernels/simd/fp16-inl.h"
#include "kernels/update/update_tile.h"

HWY_BEFORE_NAMESPACE();
namespace tidepool::HWY_NAMESPACE::rules {

using F = hn::CappedTag<float, 16>;
using V = hn::Vec<F>;
using Pair = VectorPair<V>;
constexpr size_t lanes = hn::MaxLanes(F());

// A step fills whole stripes of every kind: 32 elements, in pairs of vectors.
constexpr size_t step_elements = 32;
constexpr size_t step_pairs = step_elements / (2 * lanes);
constexpr size_t line_steps = update_line_elements / step_elements;

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

// Calls fn(0) to fn(count - 1) with numbers that are known when this is compiled: arrays of vectors then stay
// in registers. A loop costs a sixth of AdamW's speed with checksums.
template <class Fn, size_t... i>
HWY_INLINE void each_of(std::index_sequence<i...>, Fn&& fn) {
  (fn(std::integral_constant<size_t, i>()), ...);
}
template <size_t count, class Fn>
HWY_INLINE void each(Fn&& fn) {
  each_of(std::make_index_sequence<count>(), fn);
}

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

// The arrays of a tile as floats and bytes, with the slots of the rule behind the master.
template <class Rule, class Layout>
struct TileArrays {
  const std::byte* grad;
  std::byte *param, *master = nullptr;
  float* state[Rule::slots];

  explicit TileArrays(const UpdateTile& t) : grad(t.grad), param(t.arrays[0]) {
    constexpr size_t first = Layout::master_bytes == 0 ? 1 : 2;
    if constexpr (Layout::master_bytes != 0) master = t.arrays[1];
    for (size_t i = 0; i < Rule::slots; ++i) state[i] = reinterpret_cast<float*>(t.arrays[first + i]);
  }
};

// Updates pair `pair` and the following pairs of the step that begins at element i of the tile.
template <class Rule, class Layout, size_t pair, class H>
HWY_INLINE void step(const TileArrays<Rule, Layout>& t, size_t i, const float* factors, const Rule& rule,
                     LineHashes<H, Rule::slots>& hashes, const StepSecrets<Rule::slots>& secrets) {
  const size_t e = i + pair * 2 * lanes;
  std::byte* param = t.param + e * Layout::param_bytes;
  std::byte* master = t.master + e * Layout::master_bytes;
  const float* factor = factors + pair * 2 * lanes;
  const Pair g = Layout::load_grads(t.grad + e * Layout::grad_bytes);
  Pair p = Layout::load_masters(param, master);
  V first[Rule::slots], second[Rule::slots];
  each<Rule::slots>([&](auto s) HWY_ATTR {
    first[s] = hn::LoadU(F(), t.state[s] + e);
    second[s] = hn::LoadU(F(), t.state[s] + e + lanes);
  });
  rule.update(g.first, hn::LoadU(F(), factor), p.first, first);
  rule.update(g.second, hn::LoadU(F(), factor + lanes), p.second, second);
  each<Rule::slots>([&](auto s) HWY_ATTR {
    hn::StoreU(first[s], F(), t.state[s] + e);
    hn::StoreU(second[s], F(), t.state[s] + e + lanes);
  });
  each<Rule::slots>([&](auto s) HWY_ATTR {
    hash_vector<2 * pair>(hashes.state[s], first[s], secrets.state[s]);
    hash_vector<2 * pair + 1>(hashes.state[s], second[s], secrets.state[s]);
  });
  Layout::template store_masters<pair>(p, param, master, hashes, secrets);
  if constexpr (pair + 1 < step_pairs) step<Rule, Layout, pair + 1>(t, i, factors, rule, hashes, secrets);
}

template <class Rule, class Layout>
HWY_NOINLINE void plain_line(const UpdateTile& t, size_t i, const float* factors,
                             const UpdateScalars& scalars) {
  const Rule rule(scalars);
  const TileArrays<Rule, Layout> arrays(t);
  LineHashes<NoHash, Rule::slots> nothing;
  for (size_t k = 0; k < update_line_elements; k += step_elements)
    step<Rule, Layout, 0>(arrays, i + k, factors + k, rule, nothing, {});
}

#if HWY_TARGET != HWY_SCALAR
// RETURNS: secrets of step k of a line. For four-byte arrays a line is a block of 16 stripes, for two-byte
// arrays half a block: `half` is 0 or 1. `last`: the step ends the tile.
template <class Rule, class Layout>
HWY_INLINE StepSecrets<Rule::slots> secrets_of(const UpdateTileHashes& h, size_t k, size_t half, bool last) {
  constexpr size_t first_slot = Layout::master_bytes == 0 ? 1 : 2;
  const size_t first = 2 * k * xxh3_secret_step;
  const size_t second = last ? xxh3_last_stripe_secret : first + xxh3_secret_step;
  const size_t narrow = last ? xxh3_last_stripe_secret : (half * line_steps + k) * xxh3_secret_step;
  StepSecrets<Rule::slots> out;
  const auto set = [&](const u8*(&to)[2], const Xxh3Lanes& of, bool narrow_array) {
    to[0] = of.secret + (narrow_array ? narrow : first), to[1] = of.secret + second;
  };
  set(out.param, h.of[0], Layout::param_bytes == 2);
  set(out.master, h.of[1], Layout::master_bytes == 2);
  each<Rule::slots>([&](auto s) HWY_ATTR { set(out.state[s], h.of[first_slot + s], false); });
  return out;
}

template <class Rule, class Layout>
HWY_NOINLINE void hashed_line(const UpdateTile& t, size_t i, const float* factors,
                              const UpdateScalars& scalars, UpdateTileHashes& h) {
  constexpr bool narrow = Layout::param_bytes == 2, narrow_master = Layout::master_bytes == 2;
  constexpr size_t first_slot = Layout::master_bytes == 0 ? 1 : 2;
  constexpr size_t end = line_steps - 1;
  const bool last = i + update_line_elements == t.elements;
  const size_t half = i / update_line_elements % 2;
  const Rule rule(scalars);
  const TileArrays<Rule, Layout> arrays(t);
  LineHashes<StripeHash, Rule::slots> hashes;
  hashes.param.load(h.of[0]);
  if constexpr (Layout::master_bytes != 0) hashes.master.load(h.of[1]);
  each<Rule::slots>([&](auto s) HWY_ATTR { hashes.state[s].load(h.of[first_slot + s]); });
  for (size_t k = 0; k < end; ++k)
    step<Rule, Layout, 0>(arrays, i + k * step_elements, factors + k * step_elements, rule, hashes,
                          secrets_of<Rule, Layout>(h, k, half, false));
  step<Rule, Layout, 0>(arrays, i + end * step_elements, factors + end * step_elements, rule, hashes,
                        secrets_of<Rule, Layout>(h, end, half, last));
  if (!last) {
    each<Rule::slots>([&](auto s) HWY_ATTR { hashes.state[s].scramble(h.of[first_slot + s].secret); });
    if (!narrow || half == 1) hashes.param.scramble(h.of[0].secret);
    if constexpr (Layout::master_bytes != 0)
      if (!narrow_master || half == 1) hashes.master.scramble(h.of[1].secret);
  }
  hashes.param.store(h.of[0]);
  if constexpr (Layout::master_bytes != 0) hashes.master.store(h.of[1]);
  each<Rule::slots>([&](auto s) HWY_ATTR { hashes.state[s].store(h.of[first_slot + s]); });
}
#endif

// Fills in the factors of the line that begins at `line_begin` of the tile: with decay or without.
// RETURNS: the end of the lines for which these factors hold. A segment is thousands of lines long, so
// factors are rarely filled in.
inline u64 fill_factors(const UpdateTile& t, u64 line_begin, const UpdateScalars& scalars, float* factors) {
  const u64 begin = t.chunk_begin + line_begin, end = begin + update_line_elements;
  auto segment = std::upper_bound(t.segments.begin(), t.segments.end(), begin,
                                  [](u64 at, const DecaySegment& s) { return at < s.end; });
  const u64 hold_until = segment->end - t.chunk_begin;
  for (u64 at = begin; at < end && segment != t.segments.end(); at = segment->end, ++segment)
    std::fill(factors + (at - begin), factors + (std::min(end, segment->end) - begin),
              segment->decay ? scalars.decay : scalars.no_decay);
  return hold_until;
}

// The last, short line goes through buffers, so that the same instructions update it.
template <class Rule, class Layout>
HWY_NOINLINE void short_line(const UpdateTile& t, size_t i, const float* factors, const UpdateScalars& s) {
  constexpr size_t n_max = update_line_elements;
  constexpr size_t first_slot = Layout::master_bytes == 0 ? 1 : 2, arrays = first_slot + Rule::slots;
  constexpr auto bytes_of = [](size_t array) {
    return array == 0 ? Layout::param_bytes : array < first_slot ? Layout::master_bytes : sizeof(float);
  };
  HWY_ALIGN std::byte grad[n_max * 4] = {}, copies[arrays][n_max * 4] = {};
  const size_t n = t.elements - i;
  UpdateTile copy{.elements = n_max, .grad = grad, .segments = {}};
  std::memcpy(grad, t.grad + i * Layout::grad_bytes, n * Layout::grad_bytes);
  for (size_t a = 0; a < arrays; ++a) {
    copy.arrays[a] = copies[a];
    std::memcpy(copies[a], t.arrays[a] + i * bytes_of(a), n * bytes_of(a));
  }
  plain_line<Rule, Layout>(copy, 0, factors, s);
  for (size_t a = 0; a < arrays; ++a) std::memcpy(t.arrays[a] + i * bytes_of(a), copies[a], n * bytes_of(a));
}

template <class Rule, class Layout>
bool tile(const UpdateTile& t, const UpdateScalars& s, UpdateTileHashes* hashes) {
  // Two-byte arrays fill XXH3's blocks of 1 KiB every other line.
  constexpr size_t hashed_multiple = update_line_elements * (Layout::param_bytes == 2 ? 2 : 1);
  const bool hashed = HWY_TARGET != HWY_SCALAR && hashes != nullptr && t.elements % hashed_multiple == 0;
  HWY_ALIGN float factors[update_line_elements] = {};
  u64 factors_until = 0;
  for (size_t i = 0; i < t.elements; i += update_line_elements) {
    if (i + update_line_elements > factors_until) factors_until = fill_factors(t, i, s, factors);
    if (t.elements - i < update_line_elements) short_line<Rule, Layout>(t, i, factors, s);
#if HWY_TARGET != HWY_SCALAR
    else if (hashed)
      hashed_line<Rule, Layout>(t, i, factors, s, *hashes);
#endif
    else
      plain_line<Rule, Layout>(t, i, factors, s);
  }
  return hashed;
}

template <class Rule>
bool rule_tile(const UpdateTile& t, Precision precision, const UpdateScalars& s, UpdateTileHashes* hashes) {
  switch (precision) {
    case Precision::fp32:
      return tile<Rule, Fp32>(t, s, hashes);
    case Precision::bf16:
      return tile<Rule, Bf16>(t, s, hashes);
    case Precision::fp16:
      break;
  }
  return tile<Rule, Fp16>(t, s, hashes);
}

}  // namespace tidepool::HWY_NAMESPACE::rules
HWY_AFTER_NAMESPACE();

#endif  // per target
