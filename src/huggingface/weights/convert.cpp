#include "huggingface/weights/convert.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "tidepool/fp16.h"

namespace tidepool {
namespace {

u16 bf16_nearest(float x) {
  const u32 bits = std::bit_cast<u32>(x);
  if ((bits & 0x7fff'ffff) > 0x7f80'0000) return static_cast<u16>(bits >> 16 | 0x40);  // stays a NaN
  return static_cast<u16>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace

bool is_float_weight(Dtype dtype) {
  return dtype == Dtype::f32 || dtype == Dtype::bf16 || dtype == Dtype::f16 || dtype == Dtype::f64;
}

void to_floats(Dtype from, std::span<const std::byte> bytes, std::span<float> out) {
  CHECK(is_float_weight(from) && bytes.size() == out.size() * dtype_bytes(from), bytes.size(), out.size());
  if (from == Dtype::f32) return static_cast<void>(std::memcpy(out.data(), bytes.data(), bytes.size()));
  if (from == Dtype::f64) {
    const double* doubles = reinterpret_cast<const double*>(bytes.data());
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(doubles[i]);
    return;
  }
  const u16* halves = reinterpret_cast<const u16*>(bytes.data());
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = from == Dtype::bf16 ? std::bit_cast<float>(u32{halves[i]} << 16) : float_from_fp16(halves[i]);
}

void from_floats(std::span<const float> in, Dtype to, std::span<std::byte> bytes) {
  CHECK(is_float_weight(to) && bytes.size() == in.size() * dtype_bytes(to), bytes.size(), in.size());
  if (to == Dtype::f32) return static_cast<void>(std::memcpy(bytes.data(), in.data(), bytes.size()));
  if (to == Dtype::f64)
    return static_cast<void>(std::ranges::copy(in, reinterpret_cast<double*>(bytes.data())));
  u16* halves = reinterpret_cast<u16*>(bytes.data());
  for (std::size_t i = 0; i < in.size(); ++i)
    halves[i] = to == Dtype::bf16 ? bf16_nearest(in[i]) : fp16_from_float(in[i]);
}

bool overflows_fp16(std::span<const float> values) {
  constexpr float rounds_to_infinity = 65520, infinity = std::numeric_limits<float>::infinity();
  bool any = false;
  for (const float x : values) any |= std::fabs(x) >= rounds_to_infinity && std::fabs(x) < infinity;
  return any;
}

}  // namespace tidepool
