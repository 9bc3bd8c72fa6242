// Permutation is a seeded permutation of [0, count) in constant memory.
//
// A four-round Feistel network permutes [0, 2^2k) for the smallest such power that holds count. Following its
// cycle until the value is below count permutes [0, count) (Black and Rogaway, "Ciphers with arbitrary finite
// domains", 2002). Since 2^2k < 4 count, this takes fewer than four steps on average. Any position of any
// epoch is a pure function, so resuming needs only the step number.
#pragma once

#include "base/types.h"

namespace tidepool {

class Permutation {
 public:
  // REQUIRES: count >= 1.
  Permutation(u64 count, u64 seed, u64 epoch);

  u64 operator()(u64 position) const;  // REQUIRES: position < count

 private:
  static constexpr u32 rounds = 4;
  u64 encrypt(u64 value) const;

  u64 count_ = 1;
  u32 half_bits_ = 1;
  u64 keys_[rounds] = {};
};

}  // namespace tidepool
