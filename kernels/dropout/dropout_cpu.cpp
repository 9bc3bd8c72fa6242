#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/dropout/dropout.h"

namespace tidepool {
namespace {

using Block = std::array<u32, 4>;  // four elements' bits

struct Key {
  u32 low, high;
};

// Finalizer of splitmix64 (Steele, Lea and Flood): neighbouring seeds and steps land far apart.
u64 mix(u64 x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

Key key_of(const Dropout& dropout) {
  const u64 key = mix(mix(dropout.seed) + dropout.step);
  return {static_cast<u32>(key), static_cast<u32>(key >> 32)};
}

Block philox(const Dropout& dropout, Key key, u64 number) {
  Block c = {static_cast<u32>(number), static_cast<u32>(number >> 32), dropout.tensor, dropout.micro_batch};
  for (u32 round = 0; round < 10; ++round) {
    const u64 a = u64{0xd2511f53u} * c[0];
    const u64 b = u64{0xcd9e8d57u} * c[2];
    c = {static_cast<u32>(b >> 32) ^ c[1] ^ key.low, static_cast<u32>(b),
         static_cast<u32>(a >> 32) ^ c[3] ^ key.high, static_cast<u32>(a)};
    key.low += 0x9e3779b9u;
    key.high += 0xbb67ae85u;
  }
  return c;
}

}  // namespace

u32 dropout_bits(const Dropout& dropout, u64 element) {
  return philox(dropout, key_of(dropout), element / 4)[element % 4];
}

void dropout_row(const Dropout& dropout, u64 first, const float* x, float* y, u64 n) {
  const Key key = key_of(dropout);
  const float scale = dropout.scale();
  const u32 threshold = static_cast<u32>(std::min(std::ldexp(double{dropout.p}, 32), 4294967295.0));
  for (u64 i = 0; i < n;) {
    const Block bits = philox(dropout, key, (first + i) / 4);
    for (u64 lane = (first + i) % 4; lane < 4 && i < n; ++lane, ++i) {
      y[i] = bits[lane] >= threshold ? x[i] * scale : 0.0f;
    }
  }
}

}  // namespace tidepool
