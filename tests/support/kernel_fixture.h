// Pools, random data and comparisons for kernel and model tests.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "kernels/kernels.h"

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

// The upper halves, and the values they stand for.
struct Bf16Copy {
  std::vector<u16> bits;
  std::vector<float> values;

  explicit Bf16Copy(const std::vector<float>& from) : bits(from.size()), values(from.size()) {
    for (u64 i = 0; i < from.size(); ++i) {
      u32 wide;
      std::memcpy(&wide, &from[i], 4);
      bits[i] = static_cast<u16>((wide + 0x8000) >> 16);
      wide = u32{bits[i]} << 16;
      std::memcpy(&values[i], &wide, 4);
    }
  }
  Param param() const { return {reinterpret_cast<const std::byte*>(bits.data()), Precision::bf16}; }
};

// Norm of the difference over norm.
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
