// Formats of state slots below 32 bits: what they hold, and how they round.
#include "kernels/update/slot_formats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace tidepool::slot_formats_test {

float largest_of(const std::vector<float>& x) {
  float most = 0;
  for (const float v : x) most = std::max(most, std::fabs(v));
  return most;
}

std::vector<float> round_trip(SlotFormat format, const std::vector<float>& x,
                              const BlockRandom* random = nullptr, float bound = 0) {
  std::vector<std::byte> stored(1024);
  std::vector<float> out(x.size());
  encode_block(format, x, random, 0, bound > 0 ? bound : largest_of(x), stored.data());
  decode_block(format, stored.data(), out);
  return out;
}

std::vector<float> normal_values(u32 seed, bool positive) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(slot_block_elements);
  for (float& v : x) v = 1e-3f * (positive ? normal(random) * normal(random) : normal(random));
  if (positive)
    for (float& v : x) v = std::fabs(v);
  return x;
}

// The distance from one value of a format to the next, near x.
float step_at(SlotFormat format, float x, float bound) {
  if (format == SlotFormat::bf16) return std::fabs(x) / 128;
  const float scale = scale_of_bound(bound), y = std::fabs(x) / scale + codes_of(format).c();
  return scale * std::exp2(std::floor(std::log2(y))) / 16;
}

TEST(SlotFormats, ValuesAreWithinAStep) {
  for (const SlotFormat format : {SlotFormat::bf16, SlotFormat::signed8, SlotFormat::unsigned8}) {
    const std::vector<float> x = normal_values(1, format == SlotFormat::unsigned8);
    const float scale = largest_of(x);
    const BlockRandom random({.seed = 5}, 9, 2);
    const std::vector<float> at_random = round_trip(format, x, &random), nearest = round_trip(format, x);
    for (u32 i = 0; i < x.size(); ++i) {
      const float step = step_at(format, x[i], scale) * 1.001f;
      EXPECT_LE(std::fabs(at_random[i] - x[i]), step) << i;
      EXPECT_LE(std::fabs(nearest[i] - x[i]), 0.51f * step + 1e-12f) << i;
    }
  }
}

TEST(SlotFormats, WhatAFormatHasStaysAsItIs) {
  for (const SlotFormat format : {SlotFormat::bf16, SlotFormat::signed8, SlotFormat::unsigned8}) {
    const std::vector<float> x = normal_values(2, format == SlotFormat::unsigned8),
                             once = round_trip(format, x);
    for (u64 step = 1; step < 20; ++step) {
      const BlockRandom random({.seed = 5}, step, 0);
      EXPECT_EQ(round_trip(format, once, &random, largest_of(x)), once) << step;
    }
  }
}

// The mean of many roundings is the value: within 3 sigma.
TEST(SlotFormats, RoundingIsFairOnAverage) {
  constexpr u32 steps = 4000;
  for (const SlotFormat format : {SlotFormat::bf16, SlotFormat::signed8, SlotFormat::unsigned8}) {
    const std::vector<float> x = normal_values(3, format == SlotFormat::unsigned8);
    const float scale = largest_of(x);
    std::vector<double> sum(x.size());
    for (u64 step = 1; step <= steps; ++step) {
      const BlockRandom random({.seed = 5}, step, 0);
      const std::vector<float> got = round_trip(format, x, &random);
      for (u32 i = 0; i < x.size(); ++i) sum[i] += static_cast<double>(got[i]) - static_cast<double>(x[i]);
    }
    double all = 0;
    for (u32 i = 0; i < x.size(); ++i) {
      const double sigma = 0.5 * static_cast<double>(step_at(format, x[i], scale)) / std::sqrt(steps);
      EXPECT_LE(std::fabs(sum[i] / steps), 4.5 * sigma + 1e-6 * std::fabs(static_cast<double>(x[i]))) << i;
      all += sigma > 0 ? sum[i] / steps / sigma : 0;
    }
    EXPECT_LE(std::fabs(all / static_cast<double>(x.size())), 3 / std::sqrt(static_cast<double>(x.size())));
  }
}

// Without randomness an average would stand still.
TEST(SlotFormats, AnAverageMoves) {
  std::vector<float> v(slot_block_elements, 1.0f);
  for (u64 step = 1; step <= 3000; ++step) {
    for (u32 i = 1; i < v.size(); ++i) v[i] = 0.999f * v[i] + 0.001f * 0.25f;  // the first keeps the scale
    const BlockRandom random({.seed = 5}, step, 0);
    v = round_trip(SlotFormat::unsigned8, v, &random, 1);
  }
  double mean = 0;
  for (u32 i = 1; i < v.size(); ++i) mean += static_cast<double>(v[i]) / (slot_block_elements - 1);
  EXPECT_NEAR(mean, 0.25 + 0.75 * std::pow(0.999, 3000), 0.01);
}

// All values of a block decay together, and its bound with them: rare tokens, experts that are seldom routed
// to.
TEST(SlotFormats, ABlockWithoutGradientsDecaysAsItShould) {
  constexpr float beta = 0.99f;
  for (const SlotFormat format : {SlotFormat::signed8, SlotFormat::unsigned8}) {
    double sum = 0, count = 0;
    for (u64 block = 0; block < 32; ++block) {
      std::vector<float> x(slot_block_elements, 1.0f);
      for (u64 step = 1; step <= 300; ++step) {
        const float bound = with_rounding(beta * largest_of(x));
        for (float& v : x) v *= beta;
        const BlockRandom random({.seed = 5}, step, block);
        x = round_trip(format, x, &random, bound);
        EXPECT_LE(largest_of(x), bound * 1.07f);
      }
      for (const float v : x) sum += static_cast<double>(v), count += 1;
    }
    EXPECT_NEAR(sum / count / std::pow(0.99, 300), 1, 0.03);
  }
}

TEST(SlotFormats, BlocksOfZerosTinyAndNotFiniteValuesAreWhatTheySay) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (const SlotFormat format : {SlotFormat::signed8, SlotFormat::unsigned8}) {
    EXPECT_EQ(round_trip(format, {0, 0, 0}), std::vector<float>(3, 0.0f));
    EXPECT_EQ(round_trip(format, {1e-30f, 0, 0}), std::vector<float>(3, 0.0f));
    for (const float x : round_trip(format, {2e38f, 1, 0}))
      EXPECT_TRUE(std::isnan(x));  // no scale is so large
    for (const float bad : {nan, inf})
      for (const float x : round_trip(format, {1, bad, 0})) EXPECT_TRUE(std::isnan(x));
    EXPECT_NEAR(round_trip(format, {1e35f, 1, 0})[0], 1e35f, 5e33f);
    EXPECT_NEAR(round_trip(format, {1e-27f, 1e-28f, 0})[0], 1e-27f, 5e-29f);
  }
  const BlockRandom random({.seed = 5}, 1, 0);
  EXPECT_EQ(round_trip(SlotFormat::bf16, {inf, -inf}, &random), (std::vector<float>{inf, -inf}));
  EXPECT_TRUE(std::isnan(round_trip(SlotFormat::bf16, {nan}, &random)[0]));
}

// The step of an update would be divided by epsilon alone.
TEST(SlotFormats, ASecondMomentDoesNotBecomeZero) {
  const BlockRandom random({.seed = 5}, 1, 0);
  const std::vector<float> got = round_trip(SlotFormat::unsigned8, {1, 1e-12f, 0, 1e-6f}, &random);
  EXPECT_GT(got[1], 0.0f);
  EXPECT_EQ(got[2], 0.0f);
  EXPECT_GT(got[3], 0.0f);
}

TEST(SlotFormats, RandomBitsFollowFromWindowElementAndStep) {
  const BlockRandom random({.seed = 5, .first_block = 2}, 7, 3);
  EXPECT_EQ(random.of(9), BlockRandom({.seed = 5}, 7, 5).of(9));
  EXPECT_NE(random.of(9), random.of(10));
  EXPECT_NE(random.of(9), BlockRandom({.seed = 6, .first_block = 2}, 7, 3).of(9));
  EXPECT_NE(random.of(9), BlockRandom({.seed = 5, .first_block = 2}, 8, 3).of(9));
  EXPECT_EQ(random_of(0xabcd'1234, 0, 16), 0xabcdu);
  EXPECT_EQ(random_of(0xabcd'1234, 1, 16), 0x1234u);
  EXPECT_EQ(random_of(0xabcd'1234, 0, 19), 0xabcd'1234u >> 13);
  EXPECT_EQ(random_of(0xabcd'1234, 1, 19), 0x5'1234u);
}

}  // namespace tidepool::slot_formats_test
