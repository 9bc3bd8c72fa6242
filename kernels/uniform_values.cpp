#include "kernels/uniform_values.h"

#include <cstring>

#include "base/mix_bits.h"
#include "kernels/gradient/gradient.h"
#include "tidepool/fp16.h"

namespace tidepool {
namespace {

float uniform(u64 i, float scale) {
  const u64 bits = mix_bits((i + 1) * golden_gamma) >> 40;  // 24 bits
  return scale * (static_cast<float>(bits) / static_cast<float>(1 << 23) - 1.0f);
}

}  // namespace

void make_uniform(std::span<std::byte> out, Precision precision, float scale) {
  const u64 width = values_bytes(1, precision);
  for (u64 i = 0; i < out.size() / width; ++i) {
    const float value = uniform(i, scale);
    const u16 half = precision == Precision::fp16 ? fp16_from_float(value) : bf16_from_float(value);
    const void* from = precision == Precision::fp32 ? static_cast<const void*>(&value) : &half;
    std::memcpy(out.data() + i * width, from, width);
  }
}

}  // namespace tidepool
