// XXH3-64 in separate steps, so that a kernel can hash values while they are still in its registers.
// Yann Collet, "xxHash fast digest algorithm", https://github.com/Cyan4973/xxHash (long inputs).
//
// 64-byte stripes go into eight 64-bit accumulators under a secret that advances by 8 bytes per stripe; every
// 16 stripes (a block, 1 KiB) the accumulators are scrambled. The last stripe of the input has its own place
// in the secret, and no scramble follows the last block.
#pragma once

#include "base/types.h"

namespace tidepool {

inline constexpr u64 xxh3_stripe_bytes = 64;
inline constexpr u64 xxh3_block_bytes = 1024;
inline constexpr u64 xxh3_secret_bytes = 192;
inline constexpr u64 xxh3_secret_step = 8;  // per stripe of a block
inline constexpr u64 xxh3_last_stripe_secret = 192 - 64 - 7;
inline constexpr u64 xxh3_scramble_secret = 192 - 64;
inline constexpr u32 xxh3_scramble_prime = 0x9e37'79b1;

struct alignas(64) Xxh3Lanes {
  u64 lanes[8];
  u8 secret[xxh3_secret_bytes];
};

void xxh3_begin(Xxh3Lanes&, u64 seed);
// RETURNS: XXH3-64 of the `bytes` absorbed.
// REQUIRES: `bytes` is a multiple of xxh3_block_bytes, not 0.
u64 xxh3_end(const Xxh3Lanes&, u64 bytes);

}  // namespace tidepool
