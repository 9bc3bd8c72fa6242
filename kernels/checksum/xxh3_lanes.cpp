#include "kernels/checksum/xxh3_lanes.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "kernels/checksum/xxh3.h"

namespace tidepool {
namespace {

constexpr u64 prime32_1 = 0x9e37'79b1, prime32_2 = 0x85eb'ca77, prime32_3 = 0xc2b2'ae3d;
constexpr u64 prime64_1 = 0x9e37'79b1'85eb'ca87, prime64_2 = 0xc2b2'ae3d'27d4'eb4f,
              prime64_3 = 0x1656'67b1'9e37'79f9, prime64_4 = 0x85eb'ca77'c2b2'ae63,
              prime64_5 = 0x27d4'eb2f'1656'67c5;
constexpr u64 initial_lanes[8] = {prime32_3, prime64_1, prime64_2, prime64_3,
                                  prime64_4, prime32_2, prime64_5, prime32_1};
constexpr u64 merge_secret = 11;

u64 secret_word(const Xxh3Lanes& state, u64 offset) {
  u64 word;
  std::memcpy(&word, state.secret + offset, sizeof(word));
  return word;
}
u64 fold_product(u64 a, u64 b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<u64>(product) ^ static_cast<u64>(product >> 64);
}

}  // namespace

void xxh3_begin(Xxh3Lanes& state, u64 seed) {
  std::copy(std::begin(initial_lanes), std::end(initial_lanes), state.lanes);
  XXH3_generateSecret_fromSeed(state.secret, seed);
}

u64 xxh3_end(const Xxh3Lanes& state, u64 bytes) {
  u64 hash = bytes * prime64_1;
  for (u64 i = 0; i < 8; i += 2)
    hash += fold_product(state.lanes[i] ^ secret_word(state, merge_secret + 8 * i),
                         state.lanes[i + 1] ^ secret_word(state, merge_secret + 8 * i + 8));
  hash = (hash ^ (hash >> 37)) * 0x1656'6791'9e37'79f9;
  return hash ^ (hash >> 32);
}

}  // namespace tidepool
