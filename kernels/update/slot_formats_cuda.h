// The formats of state slots on a GPU, with the bits of slot_formats.h. A thread has 8 elements that follow
// each other, so a warp has the elements of one block.
#pragma once

#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/update/slot_formats.h"

namespace tidepool::cuda::rules {

// spread_elements[i], which a GPU computes.
inline __device__ u32 spread_element(u32 i) { return static_cast<u32>(mix_count(i) >> 32); }

// The scales of a block with codes: those that its values have, and those that they get.
struct BlockScale {
  float before = 0, inverse = 0;
};

template <SlotFormat format>
__device__ float value_of(u32 code, float scale) {
  constexpr Codes codes = codes_of(format);
  if constexpr (format == SlotFormat::unsigned8) return __fmul_rn(codes.value(code), scale);
  const int number = static_cast<signed char>(code);
  const float x = __fmul_rn(codes.value(static_cast<u32>(number < 0 ? -number : number)), scale);
  return number < 0 ? -x : x;
}

inline __device__ std::byte* block_at(std::byte* slot, u64 at) {
  return slot + at / slot_block_elements * slot_block_bytes;
}
inline __device__ u32* codes_at(std::byte* slot, u64 at) {
  return reinterpret_cast<u32*>(block_at(slot, at) + sizeof(float) + at % slot_block_elements);
}

// Elements [at, at + 8) of a slot; those from n on are anything.
template <SlotFormat format, bool whole>
__device__ void load_slot(std::byte* slot, u64 at, u64 n, const BlockScale& scale, float (&v)[8]) {
  if constexpr (format == SlotFormat::f32) {
    load8<whole>(reinterpret_cast<const float*>(slot), at, n, v);
  } else if constexpr (format == SlotFormat::bf16) {
    load8<whole>(reinterpret_cast<const Bf16*>(slot), at, n, v);
  } else {
    const u32* codes = codes_at(slot, at);
    const u32 words[2] = {codes[0], codes[1]};
    for (u32 i = 0; i < 8; ++i) v[i] = value_of<format>(words[i / 4] >> (i % 4 * 8) & 0xff, scale.before);
  }
}

inline __device__ u32 warp_max_bits(u32 x) {
  for (u32 step = 16; step > 0; step /= 2) {
    const u32 other = __shfl_xor_sync(all_lanes, x, static_cast<int>(step));
    x = x > other ? x : other;
  }
  return x;
}

// REQUIRES: a warp has one block, and calls this together.
template <SlotFormat format, class Fn>
__device__ BlockScale rescale(std::byte* slot, u64 at, Fn&& bound_of) {
  const u32* words = codes_at(slot, at);
  u32 most = 0;
  for (u32 i = 0; i < 8; ++i) {
    u32 code = words[i / 4] >> (i % 4 * 8) & 0xff;
    if (format == SlotFormat::signed8 && code > 127) code = 256 - code;
    most = most > code ? most : code;
  }
  constexpr Codes codes = codes_of(format);
  float* const bound = reinterpret_cast<float*>(block_at(slot, at));
  const float before = scale_of_bound(*bound);
  float after = bound_of(__fmul_rn(codes.value(warp_max_bits(most)), before));
  const float scale = scale_of_bound(after);
  if (!(scale > 0)) after = scale;
  __syncwarp();  // all have read the bound
  if (at % slot_block_elements == 0) *bound = after;
  return {before, inverse_of_scale(scale)};
}

template <SlotFormat format>
__device__ u32 code_of(float x, float inverse, u32 random) {
  constexpr Codes codes = codes_of(format);
  const float y = __fadd_rn(__fmul_rn(fabsf(x), inverse), codes.c());
  if constexpr (format == SlotFormat::unsigned8) return unsigned_code(x, y, random);
  const u32 code = codes.code(y, random);
  return (__float_as_uint(x) >> 31 ? 0 - code : code) & 0xff;
}

// `random`: those bits of each element that the slot takes.
template <SlotFormat format, bool whole>
__device__ void store_slot(std::byte* slot, u64 at, u64 n, const BlockScale& scale, const float (&v)[8],
                           const u32 (&random)[8]) {
  if constexpr (format == SlotFormat::f32) {
    store8<whole>(reinterpret_cast<float*>(slot), at, n, v);
  } else if constexpr (format == SlotFormat::bf16) {
    u16* halves = reinterpret_cast<u16*>(slot);
    u32 pairs[4] = {0, 0, 0, 0};
    for (u32 i = 0; i < 8; ++i) pairs[i / 2] |= u32{bf16_at_random(v[i], random[i])} << (i % 2 * 16);
    if constexpr (whole) {
      *reinterpret_cast<uint4*>(halves + at) = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
    } else {
      for (u32 i = 0; i < 8; ++i)
        if (at + i < n) halves[at + i] = static_cast<u16>(pairs[i / 2] >> (i % 2 * 16));
    }
  } else {
    u32 words[2] = {0, 0};
    for (u32 i = 0; i < 8; ++i)
      if (at + i < n) words[i / 4] |= code_of<format>(v[i], scale.inverse, random[i]) << (i % 4 * 8);
    u32* codes = codes_at(slot, at);
    codes[0] = words[0], codes[1] = words[1];
  }
}

}  // namespace tidepool::cuda::rules
