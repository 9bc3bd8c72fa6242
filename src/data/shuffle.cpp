#include "data/shuffle.h"

#include "tidepool/check.h"

namespace tidepool {

namespace {

// The finaliser of SplitMix64 (Steele, Lea, Flood, 2014): every bit of input reaches every bit of output.
u64 mix(u64 x) {
  x += 0x9e37'79b9'7f4a'7c15;
  x = (x ^ (x >> 30)) * 0xbf58'476d'1ce4'e5b9;
  x = (x ^ (x >> 27)) * 0x94d0'49bb'1331'11eb;
  return x ^ (x >> 31);
}

}  // namespace

Permutation::Permutation(u64 count, u64 seed, u64 epoch) : count_(count) {
  CHECK(count >= 1, count);
  while (half_bits_ < 32 && (u64{1} << (2 * half_bits_)) < count) ++half_bits_;
  for (u32 round = 0; round < rounds; ++round) keys_[round] = mix(mix(mix(seed) ^ epoch) + round);
}

u64 Permutation::encrypt(u64 value) const {
  const u64 mask = (u64{1} << half_bits_) - 1;
  u64 left = value >> half_bits_;
  u64 right = value & mask;
  for (u64 key : keys_) {
    const u64 next = left ^ (mix(right ^ key) & mask);
    left = right;
    right = next;
  }
  return (left << half_bits_) | right;
}

u64 Permutation::operator()(u64 position) const {
  CHECK(position < count_, position, count_);
  u64 value = encrypt(position);
  while (value >= count_) value = encrypt(value);
  return value;
}

}  // namespace tidepool
