// Dice draws numbers from a seed, the same on every machine.
#pragma once

#include <cstdlib>

#include "base/mix_bits.h"

namespace tidepool::test {

class Dice {
 public:
  explicit Dice(u64 seed) : state_(mix_count(seed)) {}
  u64 next() { return state_ = mix_count(state_); }
  u64 below(u64 limit) { return next() % limit; }

 private:
  u64 state_;
};

inline u64 from_environment(const char* name, u64 otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace tidepool::test
