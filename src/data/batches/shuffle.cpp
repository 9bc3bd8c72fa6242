#include "data/batches/shuffle.h"

#include "base/check.h"
#include "base/mix_bits.h"

namespace tidepool {

Permutation::Permutation(u64 count, u64 seed, u64 epoch) : count_(count) {
  CHECK(count >= 1, count);
  while (half_bits_ < 32 && (u64{1} << (2 * half_bits_)) < count) ++half_bits_;
  for (u32 round = 0; round < rounds; ++round)
    keys_[round] = mix_count(mix_count(mix_count(seed) ^ epoch) + round);
}

u64 Permutation::encrypt(u64 value) const {
  const u64 mask = (u64{1} << half_bits_) - 1;
  u64 left = value >> half_bits_;
  u64 right = value & mask;
  for (u64 key : keys_) {
    const u64 next = left ^ (mix_count(right ^ key) & mask);
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
