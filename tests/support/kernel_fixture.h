// Pools, random data and comparisons for kernel and model tests.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "kernels/kernels.h"
#include "tidepool/fp16.h"

namespace tidepool::test {

inline std::unique_ptr<CorePool> make_pool(u32 workers) {
  return create_core_pool(workers, kernel_scratch_per_worker).value();
}

inline std::vector<float> random_floats(u64 n, u32 seed, float scale = 1.0f) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> out(n);
  for (float& x : out) x = normal(engine);
  return out;
}

inline const std::byte* bytes_of(const std::vector<float>& v) {
  return reinterpret_cast<const std::byte*>(v.data());
}
inline Param param_of(const std::vector<float>& v) { return {bytes_of(v), Precision::fp32}; }

inline u16 half_of(float x, Precision precision) {
  if (precision == Precision::fp16) return fp16_from_float(x);
  return static_cast<u16>((std::bit_cast<u32>(x) + 0x8000) >> 16);
}
inline float value_of_half(u16 half, Precision precision) {
  return precision == Precision::fp16 ? float_from_fp16(half) : std::bit_cast<float>(u32{half} << 16);
}

// Values in 16 bits, and the same values widened.
struct HalfCopy {
  Precision precision;
  std::vector<u16> bits;
  std::vector<float> values;

  HalfCopy(const std::vector<float>& from, Precision p)
      : precision(p), bits(from.size()), values(from.size()) {
    for (u64 i = 0; i < from.size(); ++i) {
      bits[i] = half_of(from[i], p);
      values[i] = value_of_half(bits[i], p);
    }
  }
  Param param() const { return {reinterpret_cast<const std::byte*>(bits.data()), precision}; }
};
struct Bf16Copy : HalfCopy {
  explicit Bf16Copy(const std::vector<float>& from) : HalfCopy(from, Precision::bf16) {}
};
// RETURNS: the values after rounding to the precision.
inline std::vector<float> rounded_to(const std::vector<float>& values, Precision precision) {
  return precision == Precision::fp32 ? values : HalfCopy(values, precision).values;
}

// RETURNS: norm of the difference over the norm of `want`.
template <class A, class B>
double relative_error(const A& got, const B& want) {
  double difference = 0, norm = 0;
  for (u64 i = 0; i < want.size(); ++i) {
    const double d = double(got[i]) - double(want[i]);
    difference += d * d;
    norm += double(want[i]) * double(want[i]);
  }
  return norm == 0 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

}  // namespace tidepool::test
