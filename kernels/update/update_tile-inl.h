// rule_tile<Stored<Rule, formats...>>() runs a rule's arithmetic over a tile, with checksums of the new
// values. Each rule's source includes this header once per target. `formats`: of its slots. A rule is:
//
//   struct Rule {
//     static constexpr size_t slots = 2;                 // arrays beside the parameters
//     explicit Rule(const UpdateScalars&);               // the scalars, as vectors
//     // In: gradient, decay factor, parameter (fp32), state. Out: the new parameter and state. Without slots
//     // `state` has one place that means nothing.
//     void update(V grad, V decay, V& param, V (&state)[slots]) const;
//     // For formats with codes: what an element adds to the rule's averages, before their factors.
//     static constexpr bool adds_parameters = false;  // true: it depends on the parameter
//     V added(V grad, V decay, V param) const;
//     const Scalars scalars;  // float bound(slot, bound, added): of a block's new values of a slot
//   };
#if defined(TIDEPOOL_UPDATE_TILE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TIDEPOOL_UPDATE_TILE_INL_H
#undef TIDEPOOL_UPDATE_TILE_INL_H
#else
#define TIDEPOOL_UPDATE_TILE_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "kernels/checksum/xxh3-inl.h"
#include "kernels/update/slot_formats-inl.h"
#include "kernels/update/tile_layouts-inl.h"
#include "kernels/update/tile_vectors-inl.h"
#include "kernels/update/update_tile.h"

HWY_BEFORE_NAMESPACE();
namespace tidepool::HWY_NAMESPACE::rules {

// A step fills whole stripes of every kind: 32 elements, in pairs of vectors.
constexpr size_t step_elements = 32;
constexpr size_t step_pairs = step_elements / (2 * lanes);
constexpr size_t line_steps = update_line_elements / step_elements;

// A rule and the formats of its slots.
template <class R, SlotFormat... of>
struct Stored {
  using Rule = R;
  static constexpr size_t slots = R::slots;
  static constexpr size_t room = slots == 0 ? 1 : slots;  // of arrays, which cannot be empty
  static constexpr std::array<SlotFormat, slots> formats = {of...};
  static constexpr bool rounded = (rounds(of) || ...), coded = (has_codes(of) || ...);
  static_assert(sizeof...(of) == slots);
};

// The arrays of a tile, with the slots of the rule behind the master.
template <class S, class Layout>
struct TileArrays {
  const std::byte* grad;
  std::byte *param, *master = nullptr;
  std::byte* state[S::room];

  // At element i of the tile, where a line begins.
  TileArrays(const UpdateTile& t, size_t i)
      : grad(t.grad + i * Layout::grad_bytes), param(t.arrays[0] + i * Layout::param_bytes) {
    constexpr size_t first = Layout::master_bytes == 0 ? 1 : 2;
    if constexpr (Layout::master_bytes != 0) master = t.arrays[1] + i * Layout::master_bytes;
    for (size_t s = 0; s < S::slots; ++s)
      state[s] = t.arrays[first + s] + i / update_line_elements * line_bytes(S::formats[s]);
  }
};

// Writes the new bounds of slots with codes. They follow from the largest old values, and from what
// the line adds to its averages at most.
template <class S, class Layout>
struct LineScales {
  LineScale of[S::room];

  HWY_INLINE LineScales(const TileArrays<S, Layout>& t, const typename S::Rule& rule, const float* factors) {
    if constexpr (S::coded) {
      VI most = hn::Zero(I()), codes[S::room];
      each<S::slots>([&](auto s) HWY_ATTR { codes[s] = hn::Zero(I()); });
      for (size_t e = 0; e < update_line_elements; e += 2 * lanes) {
        const Pair g = Layout::load_grads(t.grad + e * Layout::grad_bytes);
        Pair p = g;
        if constexpr (S::Rule::adds_parameters)
          p = Layout::load_masters(t.param + e * Layout::param_bytes, t.master + e * Layout::master_bytes);
        most = larger_bits(most, rule.added(g.first, hn::LoadU(F(), factors + e), p.first));
        most = larger_bits(most, rule.added(g.second, hn::LoadU(F(), factors + e + lanes), p.second));
        each<S::slots>([&](auto s) HWY_ATTR {
          codes[s] = larger_code<S::formats[s]>(codes[s], t.state[s], e);
          codes[s] = larger_code<S::formats[s]>(codes[s], t.state[s], e + lanes);
        });
      }
      const u32 bits = static_cast<u32>(hn::GetLane(hn::MaxOfLanes(I(), most)));
      const float added = std::bit_cast<float>(bits);
      each<S::slots>([&](auto s) HWY_ATTR {
        of[s] = rescale<S::formats[s]>(t.state[s], codes[s],
                                       [&](float old) { return rule.scalars.bound(s, old, added); });
      });
    }
  }
};

// Stores a slot's new values, and hashes them, if they are not codes.
template <class S, size_t slot, size_t pair, class H>
HWY_INLINE void store_slot(const Pair& x, size_t e, const RandomPair& random, std::byte* line,
                           const LineScale& scale, H& hash, const u8* const* secrets) {
  constexpr SlotFormat format = S::formats[slot];
  if constexpr (format == SlotFormat::f32) {
    float* to = reinterpret_cast<float*>(line) + e;
    hn::StoreU(x.first, F(), to), hn::StoreU(x.second, F(), to + lanes);
    hash_vector<2 * pair>(hash, x.first, secrets);
    hash_vector<2 * pair + 1>(hash, x.second, secrets);
  } else if constexpr (format == SlotFormat::bf16) {
    const RandomPair bits = {random_part<slot, bf16_dropped_bits>(random.first),
                             random_part<slot, bf16_dropped_bits>(random.second)};
#if HWY_TARGET == HWY_SCALAR
    store_bf16_at_random(x.first, bits.first, line + 2 * e);
    store_bf16_at_random(x.second, bits.second, line + 2 * e + 2);
#else
    const auto halves = bf16_pair(x, bits);
    hn::StoreU(halves, hn::Repartition<uint16_t, F>(), reinterpret_cast<uint16_t*>(line) + e);
    if constexpr (!std::is_same_v<H, NoHash>) hash.template add<pair>(halves, secrets[0]);
#endif
  } else {
    encode<format>(x.first, scale.inverse, random_part<slot, code_dropped_bits>(random.first), line, e);
    encode<format>(x.second, scale.inverse, random_part<slot, code_dropped_bits>(random.second), line,
                   e + lanes);
  }
}

// Updates pair `pair` and the following pairs of the step that begins at element i of the line.
template <class S, class Layout, size_t pair, class H>
HWY_INLINE void step(const TileArrays<S, Layout>& t, size_t i, const float* factors,
                     const typename S::Rule& rule, u32 random_key, const LineScales<S, Layout>& scales,
                     LineHashes<H, S::room>& hashes, const StepSecrets<S::room>& secrets) {
  const size_t e = i + pair * 2 * lanes;
  std::byte* param = t.param + e * Layout::param_bytes;
  std::byte* master = t.master + e * Layout::master_bytes;
  const float* factor = factors + e;
  const Pair g = Layout::load_grads(t.grad + e * Layout::grad_bytes);
  Pair p = Layout::load_masters(param, master);
  V first[S::room], second[S::room];
  each<S::slots>([&](auto s) HWY_ATTR {
    const Pair x = load_line<S::formats[s]>(t.state[s], e, scales.of[s]);
    first[s] = x.first, second[s] = x.second;
  });
  rule.update(g.first, hn::LoadU(F(), factor), p.first, first);
  rule.update(g.second, hn::LoadU(F(), factor + lanes), p.second, second);
  RandomPair random;
  if constexpr (S::rounded) random = {random_bits(random_key, e), random_bits(random_key, e + lanes)};
  each<S::slots>([&](auto s) HWY_ATTR {
    store_slot<S, s, pair>({first[s], second[s]}, e, random, t.state[s], scales.of[s], hashes.state[s],
                           secrets.state[s]);
  });
  Layout::template store_masters<pair>(p, param, master, hashes, secrets);
  if constexpr (pair + 1 < step_pairs)
    step<S, Layout, pair + 1>(t, i, factors, rule, random_key, scales, hashes, secrets);
}

template <class S>
HWY_INLINE u32 key_of_line(const UpdateTile& t, const UpdateScalars& scalars, size_t i) {
  if constexpr (!S::rounded) return 0;
  return BlockRandom(t.rounding, scalars.step, (t.chunk_begin + i) / update_line_elements).key;
}

template <class S, class Layout>
HWY_NOINLINE void plain_line(const UpdateTile& t, size_t i, const float* factors,
                             const UpdateScalars& scalars) {
  const typename S::Rule rule(scalars);
  const TileArrays<S, Layout> arrays(t, i);
  const u32 key = key_of_line<S>(t, scalars, i);
  LineHashes<NoHash, S::room> nothing;
  const LineScales<S, Layout> scales(arrays, rule, factors);
  for (size_t k = 0; k < update_line_elements; k += step_elements)
    step<S, Layout, 0>(arrays, k, factors, rule, key, scales, nothing, {});
}

#if HWY_TARGET != HWY_SCALAR
// RETURNS: secrets of step k of a line. For four-byte arrays a line is a block of 16 stripes, for two-byte
// arrays half a block: `half` is 0 or 1. `last`: the step ends the tile.
template <class S, class Layout>
HWY_INLINE StepSecrets<S::room> secrets_of(const UpdateTileHashes& h, size_t k, size_t half, bool last) {
  constexpr size_t first_slot = Layout::master_bytes == 0 ? 1 : 2;
  const size_t first = 2 * k * xxh3_secret_step;
  const size_t second = last ? xxh3_last_stripe_secret : first + xxh3_secret_step;
  const size_t narrow = last ? xxh3_last_stripe_secret : (half * line_steps + k) * xxh3_secret_step;
  StepSecrets<S::room> out;
  const auto set = [&](const u8*(&to)[2], const Xxh3Lanes& of, bool narrow_array) {
    to[0] = of.secret + (narrow_array ? narrow : first), to[1] = of.secret + second;
  };
  set(out.param, h.of[0], Layout::param_bytes == 2);
  set(out.master, h.of[1], Layout::master_bytes == 2);
  each<S::slots>(
      [&](auto s) HWY_ATTR { set(out.state[s], h.of[first_slot + s], S::formats[s] == SlotFormat::bf16); });
  return out;
}

template <class S, class Layout>
HWY_NOINLINE void hashed_line(const UpdateTile& t, size_t i, const float* factors,
                              const UpdateScalars& scalars, UpdateTileHashes& h) {
  constexpr bool narrow = Layout::param_bytes == 2, narrow_master = Layout::master_bytes == 2;
  constexpr size_t first_slot = Layout::master_bytes == 0 ? 1 : 2;
  constexpr size_t end = line_steps - 1;
  const bool last = i + update_line_elements == t.elements;
  const size_t half = i / update_line_elements % 2;
  const typename S::Rule rule(scalars);
  const TileArrays<S, Layout> arrays(t, i);
  const u32 key = key_of_line<S>(t, scalars, i);
  const LineScales<S, Layout> scales(arrays, rule, factors);
  LineHashes<StripeHash, S::room> hashes;
  // Calls fn(slot) for slots that are hashed here.
  const auto each_hashed = [](auto fn) HWY_ATTR {
    each<S::slots>([&](auto s) HWY_ATTR {
      if constexpr (!has_codes(S::formats[s])) fn(s);
    });
  };
  hashes.param.load(h.of[0]);
  if constexpr (Layout::master_bytes != 0) hashes.master.load(h.of[1]);
  each_hashed([&](auto s) HWY_ATTR { hashes.state[s].load(h.of[first_slot + s]); });
  for (size_t k = 0; k < end; ++k)
    step<S, Layout, 0>(arrays, k * step_elements, factors, rule, key, scales, hashes,
                       secrets_of<S, Layout>(h, k, half, false));
  step<S, Layout, 0>(arrays, end * step_elements, factors, rule, key, scales, hashes,
                     secrets_of<S, Layout>(h, end, half, last));
  if (!last) {
    each_hashed([&](auto s) HWY_ATTR {
      if (S::formats[s] == SlotFormat::f32 || half == 1)
        hashes.state[s].scramble(h.of[first_slot + s].secret);
    });
    if (!narrow || half == 1) hashes.param.scramble(h.of[0].secret);
    if constexpr (Layout::master_bytes != 0)
      if (!narrow_master || half == 1) hashes.master.scramble(h.of[1].secret);
  }
  hashes.param.store(h.of[0]);
  if constexpr (Layout::master_bytes != 0) hashes.master.store(h.of[1]);
  each_hashed([&](auto s) HWY_ATTR { hashes.state[s].store(h.of[first_slot + s]); });
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
template <class S, class Layout>
HWY_NOINLINE void short_line(const UpdateTile& t, size_t i, const float* factors, const UpdateScalars& s) {
  constexpr size_t n_max = update_line_elements;
  constexpr size_t first_slot = Layout::master_bytes == 0 ? 1 : 2, arrays = first_slot + S::slots;
  const size_t n = t.elements - i;
  // The line's begin in an array, and the bytes of `n` elements of it.
  const auto begin_of = [&](size_t array) -> size_t {
    if (array < first_slot) return i * (array == 0 ? Layout::param_bytes : Layout::master_bytes);
    return i / n_max * line_bytes(S::formats[array - first_slot]);
  };
  const auto bytes_of = [&](size_t array) -> size_t {
    if (array < first_slot) return n * (array == 0 ? Layout::param_bytes : Layout::master_bytes);
    const SlotFormat format = S::formats[array - first_slot];
    return has_codes(format) ? line_bytes(format) : n * (line_bytes(format) / n_max);
  };
  HWY_ALIGN std::byte grad[n_max * 4] = {}, copies[arrays][n_max * 4] = {};
  UpdateTile copy{.elements = n_max,
                  .grad = grad,
                  .chunk_begin = t.chunk_begin + i,
                  .segments = {},
                  .rounding = t.rounding};
  std::memcpy(grad, t.grad + i * Layout::grad_bytes, n * Layout::grad_bytes);
  for (size_t a = 0; a < arrays; ++a) {
    copy.arrays[a] = copies[a];
    std::memcpy(copies[a], t.arrays[a] + begin_of(a), bytes_of(a));
  }
  plain_line<S, Layout>(copy, 0, factors, s);
  for (size_t a = 0; a < arrays; ++a) std::memcpy(t.arrays[a] + begin_of(a), copies[a], bytes_of(a));
}

template <class S, class Layout>
u32 tile(const UpdateTile& t, const UpdateScalars& s, UpdateTileHashes* hashes) {
  // Two-byte arrays fill XXH3's blocks of 1 KiB every other line.
  constexpr bool narrow = Layout::param_bytes == 2 || std::ranges::count(S::formats, SlotFormat::bf16) > 0;
  constexpr size_t hashed_multiple = update_line_elements * (narrow ? 2 : 1);
  const bool hashed = HWY_TARGET != HWY_SCALAR && hashes != nullptr && t.elements % hashed_multiple == 0;
  HWY_ALIGN float factors[update_line_elements] = {};
  u64 factors_until = 0;
  for (size_t i = 0; i < t.elements; i += update_line_elements) {
    if (i + update_line_elements > factors_until) factors_until = fill_factors(t, i, s, factors);
    if (t.elements - i < update_line_elements) short_line<S, Layout>(t, i, factors, s);
#if HWY_TARGET != HWY_SCALAR
    else if (hashed)
      hashed_line<S, Layout>(t, i, factors, s, *hashes);
#endif
    else
      plain_line<S, Layout>(t, i, factors, s);
  }
  if (!hashed) return 0;
  constexpr u32 first_slot = Layout::master_bytes == 0 ? 1 : 2;
  const auto with_codes = std::ranges::find_if(S::formats, has_codes);
  return first_slot + static_cast<u32>(with_codes - S::formats.begin());
}

template <class S>
u32 rule_tile(const UpdateTile& t, Precision precision, const UpdateScalars& s, UpdateTileHashes* hashes) {
  switch (precision) {
    case Precision::fp32:
      return tile<S, Fp32>(t, s, hashes);
    case Precision::bf16:
      return tile<S, Bf16>(t, s, hashes);
    case Precision::fp16:
      break;
  }
  return tile<S, Fp16>(t, s, hashes);
}

// The gradient comes from a GradientSource.
template <class S>
u32 source_tile(const UpdateTile& t, Precision precision, const UpdateScalars& s, UpdateTileHashes* hashes) {
  switch (precision) {
    case Precision::fp32:
      return tile<S, Fp32>(t, s, hashes);
    case Precision::bf16:
      return tile<S, WideGradient<Bf16>>(t, s, hashes);
    case Precision::fp16:
      break;
  }
  return tile<S, WideGradient<Fp16>>(t, s, hashes);
}

// The rule's `param` is the direction.
template <class S>
u32 direction_tile(const UpdateTile& t, Precision precision, const UpdateScalars& s,
                   UpdateTileHashes* hashes) {
  switch (precision) {
    case Precision::fp32:
      return tile<S, Fp32Direction>(t, s, hashes);
    case Precision::bf16:
      return tile<S, Bf16Direction>(t, s, hashes);
    case Precision::fp16:
      break;
  }
  return tile<S, Fp16Direction>(t, s, hashes);
}

}  // namespace tidepool::HWY_NAMESPACE::rules
HWY_AFTER_NAMESPACE();

#endif  // per target
