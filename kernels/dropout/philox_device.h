// Dropout's bits in device code, the same as in kernels/dropout/philox.cpp.
#pragma once

#include "kernels/cuda/device.h"
#include "kernels/dropout/philox.h"

namespace tidepool::cuda {

// RETURNS: the bits of elements 4 block ... 4 block + 3.
__device__ __forceinline__ uint4 philox_words(PhiloxKey key, u64 block) {
  uint4 c = make_uint4(static_cast<u32>(block), static_cast<u32>(block >> 32), key.tensor, key.micro_batch);
  for (u32 round = 0; round < philox_rounds; ++round) {
    const u32 a_high = __umulhi(philox_multiplier_0, c.x), a_low = philox_multiplier_0 * c.x;
    const u32 b_high = __umulhi(philox_multiplier_1, c.z), b_low = philox_multiplier_1 * c.z;
    c = make_uint4(b_high ^ c.y ^ key.low, b_low, a_high ^ c.w ^ key.high, a_low);
    key.low += philox_weyl_0;
    key.high += philox_weyl_1;
  }
  return c;
}

// v[i] is element `first` + i; drops or scales each.
// REQUIRES: first is a multiple of 8.
__device__ __forceinline__ void dropout8(const DropoutRow& row, u64 first, float (&v)[8]) {
  for (u32 half = 0; half < 2; ++half) {
    const uint4 bits = philox_words(row.key, first / 4 + half);
    v[4 * half] = bits.x < row.threshold ? 0.0f : v[4 * half] * row.scale;
    v[4 * half + 1] = bits.y < row.threshold ? 0.0f : v[4 * half + 1] * row.scale;
    v[4 * half + 2] = bits.z < row.threshold ? 0.0f : v[4 * half + 2] * row.scale;
    v[4 * half + 3] = bits.w < row.threshold ? 0.0f : v[4 * half + 3] * row.scale;
  }
}

// Adds to v[i] the noise of element `first` + i.
// REQUIRES: first is a multiple of 8.
__device__ __forceinline__ void add_noise8(PhiloxKey key, float magnitude, u64 first, float (&v)[8]) {
  for (u32 half = 0; half < 2; ++half) {
    const uint4 bits = philox_words(key, first / 4 + half);
    v[4 * half] += noise_of(bits.x, magnitude);
    v[4 * half + 1] += noise_of(bits.y, magnitude);
    v[4 * half + 2] += noise_of(bits.z, magnitude);
    v[4 * half + 3] += noise_of(bits.w, magnitude);
  }
}

}  // namespace tidepool::cuda
