// update_cuda<Rule, formats...>() runs a rule's arithmetic over a chunk set on the device, with the CPU's
// bits: the rule follows its header's list, one rounding per line. (For NaN, the payload may differ; halves
// are rounded from one canonical NaN on both sides.) `formats`: of the slots. A rule is:
//
//   struct Rule {
//     static constexpr u32 slots = 2;                    // arrays beside the parameters
//     __device__ explicit Rule(const UpdateScalars&);
//     // In: gradient, decay factor, parameter (fp32), state. Out: the new parameter and state. Without slots
//     // `state` has one place that means nothing.
//     __device__ void update(float grad, float decay, float& param, float (&state)[slots]) const;
//     // For formats with codes: what an element adds to the rule's averages, before their factors.
//     __device__ float added(float grad, float decay, float param) const;
//     Scalars s;  // float bound(slot, bound, added): of a block's new values of a slot
//   };
//
// The sum, for AdamW: bf16 reads 14 and writes 12 bytes per parameter, so a card of 4 TB/s takes 6.5 ps per
// parameter, in which its 100 multiprocessors issue about 100 instructions. So memory is the bottleneck.
#pragma once

#include "kernels/cuda/dispatch.h"
#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/require.h"
#include "kernels/update/slot_formats_cuda.h"
#include "kernels/update/update.h"

namespace tidepool::cuda::rules {

struct Halves {
  Bf16* high;
  u16* low;  // signed remainders
};
struct Words {
  float* values;
};
struct Rounded {
  Fp16* half;  // the rounded master
  float* master;
};

// A direction: it replaces the gradient, and has the same type.
template <class T>
struct Direction {
  T* values;
};
template <bool whole, class T>
__device__ void load_masters(Direction<T> p, u64 at, u64 n, float (&v)[8]) {
  load8<whole>(p.values, at, n, v);
}
template <bool whole, class T>
__device__ void store_masters(Direction<T> p, u64 at, u64 n, const float (&v)[8]) {
  store8<whole>(p.values, at, n, v);
}

// Arrays of a rule without slots have one place, because none can be empty.
template <class Rule>
inline constexpr u32 room_of = Rule::slots == 0 ? 1 : Rule::slots;

template <bool whole>
__device__ void load_masters(Words p, u64 at, u64 n, float (&v)[8]) {
  load8<whole>(p.values, at, n, v);
}
template <bool whole>
__device__ void store_masters(Words p, u64 at, u64 n, const float (&v)[8]) {
  store8<whole>(p.values, at, n, v);
}

template <bool whole>
__device__ void load_masters(Rounded p, u64 at, u64 n, float (&v)[8]) {
  load8<whole>(p.master, at, n, v);
}
template <bool whole>
__device__ void store_masters(Rounded p, u64 at, u64 n, const float (&v)[8]) {
  store8<whole>(p.master, at, n, v);
  store8<whole>(p.half, at, n, v);
}

// (high << 16) + remainder.
inline __device__ float joined(u32 high_in_place, u32 low) {
  return __uint_as_float(high_in_place + static_cast<u32>(static_cast<i32>(static_cast<std::int16_t>(low))));
}
template <bool whole>
__device__ void load_masters(Halves p, u64 at, u64 n, float (&v)[8]) {
  load8<whole>(p.high, at, n, v);
  if constexpr (whole) {
    const uint4 low = *reinterpret_cast<const uint4*>(p.low + at);
    const u32 pairs[4] = {low.x, low.y, low.z, low.w};
    for (u32 i = 0; i < 8; ++i) v[i] = joined(__float_as_uint(v[i]), pairs[i / 2] >> (i % 2 * 16) & 0xffff);
  } else {
    for (u32 i = 0; i < 8; ++i) {
      if (at + i < n) v[i] = joined(__float_as_uint(v[i]), p.low[at + i]);
    }
  }
}

// RETURNS: bits below the upper half; 0 for NaN, which is canonical.
inline __device__ u32 low_of(float x) { return x != x ? 0u : __float_as_uint(x) & 0xffff; }
template <bool whole>
__device__ void store_masters(Halves p, u64 at, u64 n, const float (&v)[8]) {
  store8<whole>(p.high, at, n, v);
  if constexpr (whole) {
    u32 pairs[4];
    for (u32 i = 0; i < 4; ++i) pairs[i] = low_of(v[2 * i]) | low_of(v[2 * i + 1]) << 16;
    *reinterpret_cast<uint4*>(p.low + at) = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
  } else {
    for (u32 i = 0; i < 8; ++i) {
      if (at + i < n) p.low[at + i] = static_cast<u16>(low_of(v[i]));
    }
  }
}

// DecayFactors gives the decay factors of ascending elements.
class DecayFactors {
 public:
  __device__ DecayFactors(const DecaySegment* segments, const UpdateScalars& scalars)
      : next_(segments), decay_(scalars.decay), no_decay_(scalars.no_decay), end_(0), factor_(0) {}

  __device__ float at(u64 element) {
    while (element >= end_) {
      end_ = next_->end;
      factor_ = next_->decay ? decay_ : no_decay_;
      ++next_;
    }
    return factor_;
  }

 private:
  const DecaySegment* next_;
  float decay_, no_decay_;
  u64 end_;
  float factor_;
};

template <class Grad, class Masters, u32 slots>
struct Chunk {
  u64 elements;
  const Grad* grad;
  Masters masters;
  std::byte* state[slots];
  const DecaySegment* segments;
  Rounding rounding;
};

// Calls fn(slot, format) with constants for each slot.
template <SlotFormat... formats, class Fn, u32... slots>
__device__ void each_slot_of(std::integer_sequence<u32, slots...>, Fn&& fn) {
  (fn(std::integral_constant<u32, slots>(), std::integral_constant<SlotFormat, formats>()), ...);
}
template <SlotFormat... formats, class Fn>
__device__ void each_slot(Fn&& fn) {
  each_slot_of<formats...>(std::make_integer_sequence<u32, sizeof...(formats)>(), fn);
}

// Skipped steps also write the kinds that every update makes anew: their bytes may have held a gradient.
template <bool whole, class Masters>
__device__ void leave_as_it_was(Masters, u64) {}
template <bool whole>
__device__ void leave_as_it_was(Rounded p, u64 elements) {
  for (u64 at = vector_elements * grid_thread(); at < elements; at += vector_elements * grid_threads()) {
    float master[8];
    load8<whole>(p.master, at, elements, master);
    store8<whole>(p.half, at, elements, master);
  }
}

template <bool whole, class Rule, class Grad, class Masters, SlotFormat... formats>
__global__ void __launch_bounds__(256)
    update_kernel(Chunk<Grad, Masters, room_of<Rule>> c, const UpdateScalars* scalars) {
  const UpdateScalars s = *scalars;
  if (s.skip) return leave_as_it_was<whole>(c.masters, c.elements);
  const Rule rule(s);
  DecayFactors decay(c.segments, s);
  constexpr bool coded = (has_codes(formats) || ...), rounded = ((formats != SlotFormat::f32) || ...);
  // A warp that writes codes stays together to the end of its block.
  const u64 end = coded ? div_up(c.elements, u64{slot_block_elements}) * slot_block_elements : c.elements;
  for (u64 at = vector_elements * grid_thread(); at < end; at += vector_elements * grid_threads()) {
    float grad[8] = {}, param[8] = {}, arrays[room_of<Rule>][8] = {};
    const bool inside = !coded || at < c.elements;  // whole: all 8, or none
    if (inside) {
      load8<whole>(c.grad, at, c.elements, grad);
      load_masters<whole>(c.masters, at, c.elements, param);
    }
    float factors[8];
    for (u32 i = 0; i < 8; ++i)
      factors[i] = inside && (whole || at + i < c.elements) ? decay.at(at + i) : 1.0f;
    BlockScale scales[room_of<Rule>];
    if constexpr (coded) {
      u32 most = 0;  // as bits, so that NaN is the largest
      for (u32 i = 0; i < 8; ++i) {
        const u32 bits = __float_as_uint(fabsf(rule.added(grad[i], factors[i], param[i])));
        if (at + i < c.elements && bits > most) most = bits;
      }
      const float added = __uint_as_float(warp_max_bits(most));
      each_slot<formats...>([&](auto slot, auto of) {
        if constexpr (has_codes(of.value))
          scales[slot] =
              rescale<of.value>(c.state[slot], at, [&](float old) { return rule.s.bound(slot, old, added); });
      });
    }
    each_slot<formats...>([&](auto slot, auto of) {
      load_slot<of.value, whole>(c.state[slot], at, c.elements, scales[slot], arrays[slot]);
    });
    for (u32 i = 0; i < 8; ++i) {
      float state[room_of<Rule>] = {};
      for (u32 slot = 0; slot != Rule::slots; ++slot) state[slot] = arrays[slot][i];
      rule.update(grad[i], factors[i], param[i], state);
      for (u32 slot = 0; slot != Rule::slots; ++slot) arrays[slot][i] = state[slot];
    }
    if (inside) store_masters<whole>(c.masters, at, c.elements, param);
    u32 random[room_of<Rule>][8] = {};
    if constexpr (rounded) {
      const BlockRandom of_block(c.rounding, s.step, at / slot_block_elements);
      constexpr u32 dropped = coded ? code_dropped_bits : bf16_dropped_bits;
      for (u32 i = 0; i < 8; ++i) {
        const u32 bits = of_block.of(spread_element(static_cast<u32>(at % slot_block_elements) + i));
        for (u32 slot = 0; slot != Rule::slots; ++slot) random[slot][i] = random_of(bits, slot, dropped);
      }
    }
    each_slot<formats...>([&](auto slot, auto of) {
      store_slot<of.value, whole>(c.state[slot], at, c.elements, scales[slot], arrays[slot], random[slot]);
    });
  }
}

template <class Rule, class Grad, SlotFormat... formats, class Masters>
void start(const UpdateChunk& c, bool whole, Masters masters, u32 first_slot, const UpdateScalars* scalars,
           cudaStream_t stream) {
  Chunk<Grad, Masters, room_of<Rule>> chunk = {.elements = c.elements,
                                               .grad = reinterpret_cast<const Grad*>(c.grad),
                                               .masters = masters,
                                               .state = {},
                                               .segments = c.segments.data(),
                                               .rounding = c.rounding};
  for (u32 i = 0; i != Rule::slots; ++i) chunk.state[i] = c.arrays[first_slot + i].data;
  for_bool(whole, [&](auto w) {
    launch<update_kernel<w.value, Rule, Grad, Masters, formats...>>(
        elementwise_launch(c.elements, vector_elements), stream, chunk, scalars);
  });
}

// RETURNS: true if threads may take eight elements of each array at once. `first_slot`: number of arrays
// before the slots; `master`: precision of the second of them.
template <class Rule, SlotFormat... formats>
bool takes_vectors(const UpdateChunk& c, Precision precision, u32 first_slot, Precision master) {
  static_assert(sizeof...(formats) == Rule::slots);
  constexpr SlotFormat format_of[] = {formats..., SlotFormat::f32};
  bool whole = rows_of_vectors(c.elements, ConstValues(c.grad, precision));
  for (u32 i = 0; i < update_arrays_max; ++i) {
    const UpdateArray& array = c.arrays[i];
    require((array.data != nullptr) == (i < first_slot + Rule::slots), "the state has the rule's arrays");
    // Checksums are for chunks with homes on disk, and the host updates those.
    require(array.hashes.empty(), "no checksums are wanted of an update on the device");
    if (array.data == nullptr) continue;
    Precision stored = i == 0 ? precision : i < first_slot ? master : Precision::fp32;
    if (i >= first_slot && has_codes(format_of[i - first_slot])) continue;
    if (i >= first_slot && format_of[i - first_slot] == SlotFormat::bf16) stored = Precision::bf16;
    whole = whole && rows_of_vectors(c.elements, Values(array.data, stored));
  }
  require(!c.segments.empty() || c.elements == 0, "segments cover the chunk");
  return whole;
}

// `segments` point to device memory, `scalars` are read when the kernel runs.
template <class Rule, SlotFormat... formats>
void update_cuda(const UpdateChunk& c, Precision precision, const UpdateScalars* scalars,
                 cudaStream_t stream) {
  const u32 first_slot = precision == Precision::fp32 ? 1 : 2;
  const bool whole = takes_vectors<Rule, formats...>(
      c, precision, first_slot, precision == Precision::bf16 ? Precision::bf16 : Precision::fp32);
  if (c.elements == 0) return;
  std::byte *const param = c.arrays[0].data, *const master = c.arrays[1].data;
  switch (precision) {
    case Precision::fp32:
      return start<Rule, float, formats...>(c, whole, Words{reinterpret_cast<float*>(param)}, first_slot,
                                            scalars, stream);
    case Precision::bf16:
      return start<Rule, Bf16, formats...>(
          c, whole, Halves{reinterpret_cast<Bf16*>(param), reinterpret_cast<u16*>(master)}, first_slot,
          scalars, stream);
    case Precision::fp16:
      return start<Rule, Fp16, formats...>(
          c, whole, Rounded{reinterpret_cast<Fp16*>(param), reinterpret_cast<float*>(master)}, first_slot,
          scalars, stream);
  }
}

// The rule's `param` is the direction, which replaces the gradient.
template <class Rule, SlotFormat... formats>
void direction_cuda(const UpdateChunk& c, Precision precision, const UpdateScalars* scalars,
                    cudaStream_t stream) {
  const bool whole = takes_vectors<Rule, formats...>(c, precision, 1, precision);
  if (c.elements == 0) return;
  for_precision(precision, [&](auto type) {
    using T = decltype(type);
    start<Rule, T, formats...>(c, whole, Direction<T>{reinterpret_cast<T*>(c.arrays[0].data)}, 1, scalars,
                               stream);
  });
}

}  // namespace tidepool::cuda::rules
