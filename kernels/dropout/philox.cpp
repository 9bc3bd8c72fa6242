// Scalar Philox: makes keys, and the bits of single elements.
#include "kernels/dropout/philox.h"

#include <algorithm>
#include <cmath>

#include "base/mix_bits.h"

namespace tidepool {

PhiloxKey philox_key(const Dropout& dropout) {
  const u64 key = mix_bits(mix_bits(dropout.seed) + dropout.step);
  return {static_cast<u32>(key), static_cast<u32>(key >> 32), dropout.tensor, dropout.micro_batch};
}

DropoutRow dropout_row_of(const Dropout& dropout) {
  const double threshold = std::min(std::ldexp(double{dropout.p}, 32), 4294967295.0);
  return {philox_key(dropout), static_cast<u32>(threshold), dropout.scale()};
}

PhiloxBlock philox(PhiloxKey key, u64 block) {
  PhiloxBlock c = {static_cast<u32>(block), static_cast<u32>(block >> 32), key.tensor, key.micro_batch};
  for (u32 round = 0; round < philox_rounds; ++round) {
    const u64 a = u64{philox_multiplier_0} * c[0];
    const u64 b = u64{philox_multiplier_1} * c[2];
    c = {static_cast<u32>(b >> 32) ^ c[1] ^ key.low, static_cast<u32>(b),
         static_cast<u32>(a >> 32) ^ c[3] ^ key.high, static_cast<u32>(a)};
    key.low += philox_weyl_0;
    key.high += philox_weyl_1;
  }
  return c;
}

u32 dropout_bits(const Dropout& dropout, u64 element) {
  return philox(philox_key(dropout), element / 4)[element % 4];
}

}  // namespace tidepool
