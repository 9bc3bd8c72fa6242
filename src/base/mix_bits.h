// mix_bits() and mix_count() spread the bits of a number: for hashes, seeds and counters.
#pragma once

#include "base/types.h"

namespace tidepool {

// Finaliser of splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
// Every bit of the input affects every bit of the result, so neighbours land far apart. 0 stays 0.
constexpr u64 mix_bits(u64 x) {
  x = (x ^ (x >> 30)) * 0xbf58'476d'1ce4'e5b9;
  x = (x ^ (x >> 27)) * 0x94d0'49bb'1331'11eb;
  return x ^ (x >> 31);
}

// 2^64 over the golden ratio, made odd. Added before mixing, it separates numbers that are counted from 0.
inline constexpr u64 golden_gamma = 0x9e37'79b9'7f4a'7c15;

// mix_bits() for inputs that may be 0: seeds and counters.
constexpr u64 mix_count(u64 x) { return mix_bits(x + golden_gamma); }

}  // namespace tidepool
