// How state slots of less than 32 bits are read and written. This is the definition, in plain code; vectors
// (slot_formats-inl.h) and GPUs (slot_formats_cuda.h) give the same bits.
//
// A value between two that a format has becomes the upper one with a probability of its distance from the
// lower one. To the nearest, an average whose changes are smaller than half that distance would stand still:
// AdamW's second moment changes by a thousandth in a step. The random bits follow from window, element and
// step alone, so no cut, tier or device changes them.
//
// Codes of 8 bits: a block has a scale, which is a power of two. x / scale is written as y = |x| / scale + c,
// and of the float y, which lies from c to below 1, the code is the exponent above c's and four bits of the
// fraction. So 0 is code 0; values far above c / 16 have a relative precision of 3 to 6 %, smaller ones an
// absolute one; and a random number below the bits that are dropped, added before they are dropped, rounds
// fairly. Signed codes have 8 octaves, from c = 2^-8 on, unsigned ones 16.
//
// The scale does not come from the new values, which would have to be kept until the last of them is known. A
// block has a bound instead: for an average, decay * (largest old value) + share * (largest gradient of the
// block). It may be octaves above the largest new value, which floats can afford and fixed steps could not.
// It counts what rounding has added to old values, so no new one is above it.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <span>
#include <string_view>

#include "base/mix_bits.h"
#include "tidepool/state_slot.h"

namespace tidepool {

constexpr bool has_codes(SlotFormat format) {
  return format == SlotFormat::signed8 || format == SlotFormat::unsigned8;
}

// ---- random bits

// The source of a chunk's random bits.
struct Rounding {
  u64 seed = 0;         // of the window, or of the group that it is in
  u64 first_block = 0;  // of the chunk, in that: blocks of slot_block_elements
};
// The seed of the window or group with this name.
constexpr u64 rounding_seed(std::string_view name) {
  u64 seed = 0;
  for (const char c : name) seed = mix_count(seed ^ static_cast<unsigned char>(c));
  return seed;
}

// Numbers of a block's elements with their bits spread.
inline constexpr std::array<u32, slot_block_elements> spread_elements = [] {
  std::array<u32, slot_block_elements> spread{};
  for (u32 i = 0; i < spread.size(); ++i) spread[i] = static_cast<u32>(mix_count(i) >> 32);
  return spread;
}();

// The random bits of a block in a step. (The key is uniform, so each element's bits are, from step to step.
// The product hides what two elements of a block have in common.)
struct BlockRandom {
  u32 key = 0;

  constexpr BlockRandom(const Rounding& rounding, u64 step, u64 block)
      : key(static_cast<u32>(mix_bits(mix_bits(rounding.seed ^ mix_count(step)) +
                                      (rounding.first_block + block) * golden_gamma) >>
                             32)) {}
  // RETURNS: 32 bits for an element, of which `spread` is that of spread_elements.
  constexpr u32 of(u32 spread) const {
    const u32 x = (key ^ spread) * 0x846c'a68bu;
    return x ^ x >> 15;
  }
};
// RETURNS: so many of an element's bits. A rule's first slot takes upper ones, its second lower ones.
constexpr u32 random_of(u32 bits, u32 slot, u32 count) {
  return slot == 0 ? bits >> (32 - count) : bits & ((1u << count) - 1);
}

// ---- bf16

inline constexpr u32 bf16_dropped_bits = 16;
inline constexpr u32 infinity_bits = 0x7f80'0000, nan_bits = 0x7fc0'0000;

constexpr u16 bf16_at_random(float x, u32 random) {
  const u32 bits = x != x ? nan_bits : std::bit_cast<u32>(x);
  return static_cast<u16>((bits + random) >> bf16_dropped_bits);
}

// ---- codes

inline constexpr u32 code_dropped_bits = 23 - 4;
struct Codes {
  u32 first;  // bits of c
  u32 most;   // the largest code; of either sign

  constexpr float c() const { return std::bit_cast<float>(first); }
  // `y`: |x| / scale + c.
  constexpr u32 code(float y, u32 random) const {
    const u32 code = ((std::bit_cast<u32>(y) + random) >> code_dropped_bits) - (first >> code_dropped_bits);
    return code < most ? code : most;
  }
  constexpr float value(u32 code) const {
    return std::bit_cast<float>(first + (code << code_dropped_bits)) - c();
  }
};
inline constexpr Codes signed_codes = {(127 - 8) << 23, 127}, unsigned_codes = {(127 - 16) << 23, 255};
constexpr Codes codes_of(SlotFormat format) {
  return format == SlotFormat::signed8 ? signed_codes : unsigned_codes;
}
// Codes reach 0.96. A value that is rounded up may be a sixteenth above the bound, and c / 16 of the scale.
inline constexpr float bound_margin = 17.0f / 16 / 0.96f;
// Blocks with a smaller bound are zeros: 2^-90, whose root is far below AdamW's epsilon. Those with a larger
// one than 2^125 count as not finite: their scale would not be.
inline constexpr u32 least_bound_bits = (127 - 90) << 23, most_bound_bits = (127 + 125) << 23;

// The power of two by which the values of a block are divided. 0 if they are zeros; NaN if they are not
// finite, so that all of them are NaN afterwards.
constexpr float scale_of_bound(float bound) {
  if (std::bit_cast<u32>(bound) >= most_bound_bits) return std::bit_cast<float>(nan_bits);
  if (std::bit_cast<u32>(bound) < least_bound_bits) return 0;
  return std::bit_cast<float>((std::bit_cast<u32>(bound * bound_margin) + 0x7f'ffff) & infinity_bits);
}
// Values are multiplied by this, to be written. 0: they are zeros, or not finite.
constexpr float inverse_of_scale(float scale) { return scale > 0 ? 1 / scale : 0; }
// A bound of the rule, kept above what rounding may add.
constexpr float with_rounding(float bound) { return bound * (1 + 0x1p-20f); }

// The code of x, as `y`. Second moments that are not 0 do not become 0 in a block that has a scale: the step
// would be divided by epsilon alone.
constexpr u32 unsigned_code(float x, float y, u32 random) {
  constexpr Codes codes = unsigned_codes;  // a copy, because device code has no constants of the host
  const u32 code = codes.code(y, random);
  return code == 0 && x > 0 ? 1 : code;
}

// Bytes of a slot's elements. REQUIRES: whole blocks, or all of a tensor.
constexpr u64 slot_bytes(SlotFormat format, u64 elements) {
  if (format == SlotFormat::f32) return sizeof(float) * elements;
  if (format == SlotFormat::bf16) return sizeof(u16) * elements;
  return div_up(elements, u64{slot_block_elements}) * slot_block_bytes;
}

// Elements of a slot as floats, and back. `random`: of the block; null: to the nearest bf16, or code, and the
// bound is the largest value; else it is `bound`.
// REQUIRES: SlotFormat is not `remainder`; at most slot_block_elements, in one block.
void decode_block(SlotFormat, const std::byte* from, std::span<float> to);
void encode_block(SlotFormat, std::span<const float> from, const BlockRandom* random, u32 slot, float bound,
                  std::byte* to);

// Converts elements that begin with a block, to the nearest: there is no step that random bits could follow
// from. REQUIRES: `from` and `to` do not overlap.
void convert_slot(SlotFormat from_format, const std::byte* from, SlotFormat to_format, std::byte* to,
                  u64 elements);

}  // namespace tidepool
