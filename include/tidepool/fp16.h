// Conversions between float and IEEE 754 half precision: round to nearest, ties to even, as tensor cores,
// F16C and PyTorch round. There is one NaN.
#pragma once

#include <bit>

#include "base/types.h"

namespace tidepool {

inline constexpr u16 fp16_infinity = 0x7c00, fp16_nan = 0x7e00;

constexpr u16 fp16_from_float(float x) {
  const u32 bits = std::bit_cast<u32>(x), magnitude = bits & 0x7fff'ffff;
  const u16 sign = static_cast<u16>((bits ^ magnitude) >> 16);
  if (magnitude > 0x7f80'0000) return fp16_nan;
  if (magnitude >= 0x4780'0000) return sign | fp16_infinity;  // 2^16 and up
  // Below 2^-14 a half counts units of 2^-24, which is also the last place of the float 0.5: adding 0.5
  // rounds.
  if (magnitude < 0x3880'0000)
    return static_cast<u16>(sign |
                            (std::bit_cast<u32>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f00'0000));
  // Changes the bias from 127 to 15 and adds half a place, or just less than half where the place is even.
  // The carry may reach infinity.
  return static_cast<u16>(sign | (magnitude - (112u << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13);
}

constexpr float float_from_fp16(u16 half) {
  const u32 sign = u32{half} >> 15 << 31, magnitude = half & 0x7fffu;
  if (magnitude < 0x400)
    return std::bit_cast<float>(sign | std::bit_cast<u32>(static_cast<float>(magnitude) * 0x1p-24f));
  const u32 special = magnitude >= fp16_infinity ? 0x7f80'0000 : 0;
  return std::bit_cast<float>(sign | special | ((magnitude << 13) + (112u << 23)));
}

}  // namespace tidepool
