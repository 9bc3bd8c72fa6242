// Philox4x32-10: one 128-bit counter yields the bits of four elements.
#pragma once

#include <array>

#include "kernels/dropout/dropout.h"

namespace tidepool {

inline constexpr u32 philox_rounds = 10;
inline constexpr u32 philox_multiplier_0 = 0xd2511f53, philox_multiplier_1 = 0xcd9e8d57;
inline constexpr u32 philox_weyl_0 = 0x9e3779b9, philox_weyl_1 = 0xbb67ae85;

// Counter: block number (64 bits), tensor, micro-batch. Key: seed and step.
struct PhiloxKey {
  u32 low = 0, high = 0;
  u32 tensor = 0, micro_batch = 0;
};

PhiloxKey philox_key(const Dropout&);

using PhiloxBlock = std::array<u32, 4>;
PhiloxBlock philox(PhiloxKey, u64 block);

struct DropoutRow {
  PhiloxKey key;
  u32 threshold = 0;  // elements with bits below it are dropped
  float scale = 1;
};
DropoutRow dropout_row_of(const Dropout&);

}  // namespace tidepool
