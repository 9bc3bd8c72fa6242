// Splits fp32 masters into the parts that bf16 and fp16 runs keep, on spans. For bf16 it is the same pair as
// in kernels/gradient/gradient.h: the upper 16 bits rounded half up, and the signed remainder. The split is a
// one-to-one map of 32-bit words (sums wrap), so a checkpoint restores the exact pair for every value,
// including NaNs.
#pragma once

#include <bit>
#include <span>

#include "base/check.h"
#include "base/types.h"
#include "tidepool/fp16.h"

namespace tidepool {

// REQUIRES, for both functions: all three spans have the same length.
inline void join_split(std::span<const u16> high, std::span<const u16> low, std::span<u32> bits) {
  CHECK(high.size() == bits.size() && low.size() == bits.size());
  for (std::size_t i = 0; i < bits.size(); ++i) {
    const u32 remainder = static_cast<u32>(static_cast<i32>(static_cast<std::int16_t>(low[i])));
    bits[i] = (u32{high[i]} << 16) + remainder;
  }
}

inline void split_bits(std::span<const u32> bits, std::span<u16> high, std::span<u16> low) {
  CHECK(high.size() == bits.size() && low.size() == bits.size());
  for (std::size_t i = 0; i < bits.size(); ++i) {
    high[i] = static_cast<u16>((bits[i] + 0x8000u) >> 16);
    low[i] = static_cast<u16>(bits[i]);
  }
}

// Computes fp16 parameters from the bits of their masters.
inline void round_to_fp16(std::span<const u32> bits, std::span<u16> halves) {
  CHECK(halves.size() == bits.size());
  for (std::size_t i = 0; i < bits.size(); ++i) halves[i] = fp16_from_float(std::bit_cast<float>(bits[i]));
}

}  // namespace tidepool
