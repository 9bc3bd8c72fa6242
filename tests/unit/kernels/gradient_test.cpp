#include "kernels/gradient/gradient.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "tests/unit/kernels/simd_targets.h"
#include "tidepool/fp16.h"

namespace tidepool::gradient_test {

std::vector<float> normal_values(u64 n, u32 seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}
std::vector<std::byte> bytes_of(const auto& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(values[0]));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}
std::vector<u16> rounded(std::span<const float* const> accumulators, u64 n, CorePool& pool,
                         Precision precision = Precision::bf16) {
  std::vector<u16> grad(n);
  finish_gradient(accumulators, reinterpret_cast<std::byte*>(grad.data()), precision, n, pool);
  return grad;
}

void expect_exact_split(u32 bits) {
  const float x = std::bit_cast<float>(bits);
  const float back = float_from_split(bf16_from_float(x), low_from_float(x));
  ASSERT_EQ(std::bit_cast<u32>(back), std::isnan(x) ? 0x7fc0'0000u : bits) << std::hex << bits;
}

// Every sign, exponent and upper mantissa, with remainders around the rounding boundary.
TEST(Bf16, SplitGivesEveryFloatBack) {
  for (u32 high = 0; high < 0x1'0000; ++high)
    for (u32 low : {0u, 1u, 0x1234u, 0x7ffeu, 0x7fffu, 0x8000u, 0x8001u, 0xbeefu, 0xfffeu, 0xffffu})
      expect_exact_split(high << 16 | low);
  for (u64 bits = 0; bits <= 0xffff'ffffu; bits += 509) expect_exact_split(static_cast<u32>(bits));
}

TEST(Bf16, RoundsHalfUpInMagnitude) {
  EXPECT_EQ(bf16_from_float(1.0f), 0x3f80);
  EXPECT_EQ(bf16_from_float(std::bit_cast<float>(0x3f80'7fffu)), 0x3f80);
  EXPECT_EQ(bf16_from_float(std::bit_cast<float>(0x3f80'8000u)), 0x3f81);
  EXPECT_EQ(bf16_from_float(std::bit_cast<float>(0xbf80'8000u)), 0xbf81);
  EXPECT_EQ(bf16_from_float(-0.0f), 0x8000);
  EXPECT_EQ(bf16_from_float(std::numeric_limits<float>::infinity()), 0x7f80);
  EXPECT_EQ(bf16_from_float(std::numeric_limits<float>::max()), 0x7f80);  // the remainder is -1
  EXPECT_EQ(bf16_from_float(std::bit_cast<float>(0xffff'ffffu)), 0x7fc0);
}

__extension__ typedef _Float16 CompilersHalf;

TEST(Fp16, RoundsAndWidensAsTheCompilerDoes) {
  for (u32 half = 0; half < 0x1'0000; ++half) {
    const float wide = float_from_fp16(static_cast<u16>(half));
    const float expected = static_cast<float>(std::bit_cast<CompilersHalf>(static_cast<u16>(half)));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(wide)) << half;
      continue;
    }
    ASSERT_EQ(std::bit_cast<u32>(wide), std::bit_cast<u32>(expected)) << half;
    ASSERT_EQ(fp16_from_float(wide), half);
  }
  const auto expect = [](u32 bits) {
    const float x = std::bit_cast<float>(bits);
    const u16 expected = std::isnan(x) ? fp16_nan : std::bit_cast<u16>(static_cast<CompilersHalf>(x));
    ASSERT_EQ(fp16_from_float(x), expected) << std::hex << bits;
  };
  for (u64 bits = 0; bits <= 0xffff'ffffu; bits += 1021) expect(static_cast<u32>(bits));
  for (u32 half = 0; half < 0x7c00; ++half)  // at the rounding boundaries
    for (i32 by : {-1, 0, 1}) {
      const double middle = (double{float_from_fp16(static_cast<u16>(half))} +
                             (half == 0x7bff ? 65536.0 : float_from_fp16(static_cast<u16>(half + 1)))) /
                            2;
      expect(std::bit_cast<u32>(static_cast<float>(middle)) + static_cast<u32>(by));
    }
}

TEST(Gradient, RoundsLikeTheReferenceOnEveryTarget) {
  auto pool = create_core_pool(2, Bytes{0}).value();
  std::vector<float> values;
  for (u32 high = 0; high < 0x1'0000; ++high)
    for (u32 low : {0u, 0x7fffu, 0x8000u, 0xffffu}) values.push_back(std::bit_cast<float>(high << 16 | low));
  values.resize(values.size() - 3);  // not a whole number of vectors
  const float* accumulator = values.data();
  for_each_simd_target([&](const char* target) {
    const auto grad = rounded({&accumulator, 1}, values.size(), *pool);
    const auto half = rounded({&accumulator, 1}, values.size(), *pool, Precision::fp16);
    for (u64 i = 0; i < values.size(); ++i) {
      ASSERT_EQ(grad[i], bf16_from_float(values[i])) << target << " " << i;
      ASSERT_EQ(half[i], fp16_from_float(values[i])) << target << " " << values[i];
    }
  });
}

TEST(Gradient, SumsUsesInOrder) {
  auto pool = create_core_pool(3, Bytes{0}).value();
  const u64 n = norm_granule_elements + 2051;
  const auto a = normal_values(n, 1), b = normal_values(n, 2), c = normal_values(n, 3);
  for_each_simd_target([&](const char* target) {
    std::vector<float> sum = a;
    const float* uses[] = {sum.data(), b.data(), c.data()};
    const auto grad = rounded(uses, n, *pool);
    finish_gradient(uses, reinterpret_cast<std::byte*>(sum.data()), Precision::fp32, n, *pool);
    for (u64 i = 0; i < n; ++i) {
      ASSERT_EQ(sum[i], (a[i] + b[i]) + c[i]) << target << " " << i;
      ASSERT_EQ(grad[i], bf16_from_float(sum[i])) << target << " " << i;
    }
  });
}

std::vector<double> partials_of(const std::vector<std::byte>& grad, Precision precision, u64 n,
                                CorePool& pool) {
  std::vector<double> partials(div_up(n, norm_granule_elements));
  norm_partials(grad.data(), precision, n, partials, pool);
  return partials;
}

TEST(Gradient, NormPartialsDoNotDependOnTargetOrWorkers) {
  const u64 n = 2 * norm_granule_elements + 777;
  const auto values = normal_values(n, 4);
  const float* accumulator = values.data();
  auto pool = create_core_pool(3, Bytes{0}).value(), one = create_core_pool(1, Bytes{0}).value();
  const auto fp32 = bytes_of(values), bf16 = bytes_of(rounded({&accumulator, 1}, n, *pool));
  const auto fp16 = bytes_of(rounded({&accumulator, 1}, n, *pool, Precision::fp16));
  const auto expected32 = partials_of(fp32, Precision::fp32, n, *one);
  const auto expected16 = partials_of(bf16, Precision::bf16, n, *one);
  const auto expected_fp16 = partials_of(fp16, Precision::fp16, n, *one);
  for_each_simd_target([&](const char* target) {
    EXPECT_EQ(partials_of(fp32, Precision::fp32, n, *pool), expected32) << target;
    EXPECT_EQ(partials_of(bf16, Precision::bf16, n, *pool), expected16) << target;
    EXPECT_EQ(partials_of(fp16, Precision::fp16, n, *pool), expected_fp16) << target;
  });
  double sum = 0, sum16 = 0, sum_fp16 = 0;
  for (float value : values) {
    sum += double{value} * value;
    const double r = float_from_bf16(bf16_from_float(value));
    sum16 += r * r;
    const double h = float_from_fp16(fp16_from_float(value));
    sum_fp16 += h * h;
  }
  EXPECT_NEAR(expected32[0] + expected32[1] + expected32[2], sum, 1e-9 * sum);
  EXPECT_NEAR(expected16[0] + expected16[1] + expected16[2], sum16, 1e-9 * sum16);
  EXPECT_NEAR(expected_fp16[0] + expected_fp16[1] + expected_fp16[2], sum_fp16, 1e-9 * sum_fp16);
}

TEST(Gradient, NormShowsNonFiniteValues) {
  auto pool = create_core_pool(1, Bytes{0}).value();
  for (float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    auto values = normal_values(1000, 5);
    values[333] = bad;
    EXPECT_FALSE(std::isfinite(partials_of(bytes_of(values), Precision::fp32, 1000, *pool)[0]));
  }
  auto values = normal_values(1000, 5);
  values[333] = 65520.0f;  // fp16 ends at 65504
  const float* accumulator = values.data();
  const auto grad = bytes_of(rounded({&accumulator, 1}, 1000, *pool, Precision::fp16));
  EXPECT_FALSE(std::isfinite(partials_of(grad, Precision::fp16, 1000, *pool)[0]));
}

}  // namespace tidepool::gradient_test
