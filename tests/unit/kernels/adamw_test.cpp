#include "kernels/adamw/adamw.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/checksum/checksum.h"
#include "kernels/gradient/gradient.h"
#include "tests/unit/kernels/simd_targets.h"
#include "tidepool/fp16.h"

namespace tidepool::adamw_test {

std::span<const std::byte> raw(const auto& values) { return std::as_bytes(std::span(values)); }

// A chunk set in memory, with hashes requested for every kind.
struct State {
  Precision precision;
  std::vector<float> grad32, param32, momentum, variance;  // param32: fp16's masters too
  std::vector<u16> grad16, param16, low;
  std::vector<DecaySegment> segments;
  std::vector<u64> param_hashes, low_hashes, momentum_hashes, variance_hashes;

  State(Precision p, u64 n, u32 seed = 1)
      : precision(p), grad32(n), param32(n), momentum(n), variance(n), grad16(n), param16(n), low(n) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (u64 i = 0; i < n; ++i) {
      grad32[i] = 0.1f * normal(random);
      param32[i] = normal(random);
      momentum[i] = 0.01f * normal(random);
      variance[i] = 0.001f * std::abs(normal(random));
    }
    segments = {{0, n, true}};
    split();
  }
  bool bf16() const { return precision == Precision::bf16; }
  bool fp32() const { return precision == Precision::fp32; }
  void split() {
    for (u64 i = 0; i < param32.size(); ++i) {
      grad16[i] = bf16() ? bf16_from_float(grad32[i]) : fp16_from_float(grad32[i]);
      param16[i] = bf16() ? bf16_from_float(param32[i]) : fp16_from_float(param32[i]);
      low[i] = low_from_float(param32[i]);
    }
  }
  float master(u64 i) const { return bf16() ? float_from_split(param16[i], low[i]) : param32[i]; }
  float grad(u64 i) const {
    return fp32() ? grad32[i] : bf16() ? float_from_bf16(grad16[i]) : float_from_fp16(grad16[i]);
  }
  std::span<const std::byte> param_bytes() const { return fp32() ? raw(param32) : raw(param16); }
  std::byte* master_data() {
    return fp32() ? nullptr
                  : reinterpret_cast<std::byte*>(bf16() ? static_cast<void*>(low.data()) : param32.data());
  }

  AdamWChunk chunk() {
    return {.elements = momentum.size(),
            .grad = fp32() ? reinterpret_cast<std::byte*>(grad32.data())
                           : reinterpret_cast<std::byte*>(grad16.data()),
            .param = fp32() ? reinterpret_cast<std::byte*>(param32.data())
                            : reinterpret_cast<std::byte*>(param16.data()),
            .master = master_data(),
            .momentum = momentum.data(),
            .variance = variance.data(),
            .segments = segments};
  }
  AdamWChunk hashed_chunk() {
    AdamWChunk c = chunk();
    const u64 tiles = div_up(c.elements, checksum_block_elements);
    for (auto* hashes : {&param_hashes, &low_hashes, &momentum_hashes, &variance_hashes})
      hashes->assign(tiles, 0);
    c.param_hashes = param_hashes, c.momentum_hashes = momentum_hashes, c.variance_hashes = variance_hashes;
    if (!fp32()) c.master_hashes = low_hashes;
    c.param_seed = 11, c.master_seed = 12, c.momentum_seed = 13, c.variance_seed = 14;
    return c;
  }
  auto bits() const {
    std::vector<std::byte> all;
    for (auto bytes : {raw(param32), raw(momentum), raw(variance), raw(param16), raw(low), raw(param_hashes),
                       raw(low_hashes), raw(momentum_hashes), raw(variance_hashes)})
      all.insert(all.end(), bytes.begin(), bytes.end());
    return all;
  }
};

AdamWScalars scalars_of(u64 t = 3, double norm = 2.0) {
  return adamw_scalars({.learning_rate = 1e-3, .weight_decay = 0.1}, t, norm, 1.0);
}

// The header's list, one operation at a time.
struct Element {
  float param, momentum, variance;
};
Element reference(Element x, float grad, bool decay, const AdamWScalars& s) {
  const float root = s.grad_to_root * grad;
  const float m = std::fma(s.beta1, x.momentum, s.grad_to_momentum * grad);
  const float v = std::fma(root, root, s.beta2 * x.variance);
  const float denom = std::fma(std::sqrt(v), s.root_factor, s.root_offset);
  return {std::fma(decay ? s.decay : 1.0f, x.param, -(m / denom)), m, v};
}

void expect_like_reference(Precision precision, u64 n, std::vector<DecaySegment> segments) {
  auto pool = create_core_pool(2, Bytes{0}).value();
  for_each_simd_target([&](const char* target) {
    State state(precision, n);
    state.segments = segments;
    const State before = state;
    const AdamWScalars s = scalars_of();
    adamw(state.chunk(), precision, s, *pool);
    for (const DecaySegment& segment : segments)
      for (u64 i = segment.begin; i < segment.end; ++i) {
        const Element e = reference({before.master(i), before.momentum[i], before.variance[i]},
                                    before.grad(i), segment.decay, s);
        ASSERT_EQ(state.master(i), e.param) << target << " " << i;
        if (precision == Precision::fp16) {
          ASSERT_EQ(state.param16[i], fp16_from_float(e.param)) << target << " " << i;
        }
        ASSERT_EQ(state.momentum[i], e.momentum) << target << " " << i;
        ASSERT_EQ(state.variance[i], e.variance) << target << " " << i;
      }
  });
}

TEST(AdamW, IsTheReferenceToTheBitOnEveryTarget) {
  for (Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16})
    for (u64 n : {1ul, 15ul, 16ul, 17ul, 2048ul, 16384ul, 16384ul + 33, 40000ul})
      expect_like_reference(precision, n, {{0, n, true}});
}

// NaN and infinity in bf16 are split as by the scalar code, on every target.
TEST(AdamW, MasterThatIsNotFiniteIsSplitLikeAnyOther) {
  auto pool = create_core_pool(1, Bytes{0}).value();
  for_each_simd_target([&](const char* target) {
    State state(Precision::bf16, 256);
    state.grad32[5] = std::numeric_limits<float>::quiet_NaN();
    state.param32[40] = std::numeric_limits<float>::infinity();
    state.param32[41] = -std::numeric_limits<float>::infinity();
    state.param32[56] = std::numeric_limits<float>::infinity();
    state.split();
    adamw(state.chunk(), Precision::bf16, scalars_of(), *pool);
    EXPECT_EQ(state.param16[5], 0x7fc0) << target;
    EXPECT_EQ(state.low[5], 0) << target;
    EXPECT_EQ(state.master(40), std::numeric_limits<float>::infinity()) << target;
    EXPECT_EQ(state.master(41), -std::numeric_limits<float>::infinity()) << target;
    EXPECT_TRUE(std::isfinite(state.master(4)) && std::isfinite(state.master(57))) << target;
  });
}

TEST(AdamW, SegmentsMayBeginAnywhere) {
  for (Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16})
    expect_like_reference(
        precision, 34816,
        {{0, 3, true}, {3, 1000, false}, {1000, 1024, true}, {1024, 20001, false}, {20001, 34816, true}});
}

TEST(AdamW, WorkersAndSegmentSplitsDoNotShow) {
  for (Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    const u64 n = 5 * checksum_block_elements + 2048;
    State expected(precision, n);
    adamw(expected.hashed_chunk(), precision, scalars_of(), *create_core_pool(1, Bytes{0}).value());
    for (u32 workers : {2u, 3u}) {
      State state(precision, n);
      state.segments = {{0, 7777, true}, {7777, 50000, true}, {50000, n, true}};
      adamw(state.hashed_chunk(), precision, scalars_of(), *create_core_pool(workers, Bytes{0}).value());
      EXPECT_EQ(state.bits(), expected.bits());
    }
  }
}

void expect_hashes_of_memory(State& state) {
  const auto expect = [](std::span<const std::byte> bytes, u64 element, u64 seed,
                         const std::vector<u64>& hashes) {
    const u64 block = checksum_block_elements * element;
    for (u64 i = 0; i < hashes.size(); ++i)
      EXPECT_EQ(hashes[i],
                block_checksum(bytes.subspan(i * block, std::min(block, bytes.size() - i * block)), seed, i));
  };
  expect(state.param_bytes(), state.fp32() ? 4 : 2, 11, state.param_hashes);
  if (state.bf16()) expect(raw(state.low), 2, 12, state.low_hashes);
  if (state.precision == Precision::fp16) expect(raw(state.param32), 4, 12, state.low_hashes);
  expect(raw(state.momentum), 4, 13, state.momentum_hashes);
  expect(raw(state.variance), 4, 14, state.variance_hashes);
}

TEST(AdamW, HashesMatchTheResultInMemory) {
  auto pool = create_core_pool(2, Bytes{0}).value();
  for (Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16})
    for (u64 n : {7ul, 256ul, 2048ul, 16384ul, 3 * 16384ul + 2048, 2 * 16384ul + 5 * 256, 16384ul + 1001})
      for_each_simd_target([&](const char* target) {
        SCOPED_TRACE(testing::Message() << target << " " << n);
        State state(precision, n);
        state.segments =
            n < 1000 ? state.segments : std::vector<DecaySegment>{{0, 301, false}, {301, n, true}};
        adamw(state.hashed_chunk(), precision, scalars_of(), *pool);
        expect_hashes_of_memory(state);
      });
}

TEST(AdamW, SomeHashesAreEnough) {
  auto pool = create_core_pool(1, Bytes{0}).value();
  State state(Precision::fp32, 20000), all(Precision::fp32, 20000);
  AdamWChunk c = state.hashed_chunk();
  c.momentum_hashes = {};
  adamw(c, Precision::fp32, scalars_of(), *pool);
  adamw(all.hashed_chunk(), Precision::fp32, scalars_of(), *pool);
  EXPECT_EQ(state.param_hashes, all.param_hashes);
  EXPECT_EQ(state.variance_hashes, all.variance_hashes);
  EXPECT_EQ(state.momentum_hashes, std::vector<u64>(2, 0));
}

TEST(AdamW, ASkippedStepLeavesTheStateAndStillHashes) {
  auto pool = create_core_pool(2, Bytes{0}).value();
  for (Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    State state(precision, 40000);
    const State before = state;
    // A gradient may have lain in the bytes of fp16's parameters.
    if (precision == Precision::fp16) std::fill(state.param16.begin(), state.param16.end(), u16{0x1234});
    const AdamWScalars s = scalars_of(3, std::numeric_limits<double>::quiet_NaN());
    EXPECT_TRUE(s.skip);
    adamw(state.hashed_chunk(), precision, s, *pool);
    expect_hashes_of_memory(state);
    EXPECT_EQ(state.param32, before.param32);
    EXPECT_EQ(state.param16, before.param16);
    EXPECT_EQ(state.low, before.low);
    EXPECT_EQ(state.momentum, before.momentum);
    EXPECT_EQ(state.variance, before.variance);
  }
}

TEST(AdamW, MasterOfBf16TakesTheSameStepsAsFp32) {
  auto pool = create_core_pool(2, Bytes{0}).value();
  State split(Precision::bf16, 20000), whole(Precision::fp32, 20000);
  for (u64 i = 0; i < 20000; ++i) whole.grad32[i] = split.grad(i);
  for (u64 t = 1; t <= 20; ++t) {
    adamw(split.chunk(), Precision::bf16, scalars_of(t), *pool);
    adamw(whole.chunk(), Precision::fp32, scalars_of(t), *pool);
  }
  for (u64 i = 0; i < 20000; ++i) ASSERT_EQ(split.master(i), whole.param32[i]) << i;
}

// fp16's gradients are multiplied by the loss scale; dividing by a power of two is exact.
TEST(AdamW, TheLossScaleIsDividedOut) {
  auto pool = create_core_pool(2, Bytes{0}).value();
  const AdamWStep step = adamw_step({.learning_rate = 1e-3, .weight_decay = 0.1}, 3, 1.0);
  State scaled(Precision::fp16, 5000), plain(Precision::fp32, 5000);
  for (float& g : scaled.grad32) g *= 1024;
  scaled.split();
  for (u64 i = 0; i < 5000; ++i) plain.grad32[i] = scaled.grad(i) / 1024;
  adamw(scaled.chunk(), Precision::fp16, adamw_scalars(step, {.grad_norm = 2, .loss_scale = {.scale = 1024}}),
        *pool);
  adamw(plain.chunk(), Precision::fp32, adamw_scalars(step, {.grad_norm = 2}), *pool);
  EXPECT_EQ(scaled.param32, plain.param32);
  EXPECT_EQ(scaled.momentum, plain.momentum);
  EXPECT_EQ(scaled.variance, plain.variance);
}

TEST(AdamW, KeepsDenormals) {
  auto pool = create_core_pool(1, Bytes{0}).value();
  State state(Precision::fp32, 64);
  std::fill(state.grad32.begin(), state.grad32.end(), 0.0f);
  std::fill(state.variance.begin(), state.variance.end(), 1e-40f);
  adamw(state.chunk(), Precision::fp32, scalars_of(), *pool);
  for (float v : state.variance) EXPECT_EQ(v, 0.999f * 1e-40f);
  EXPECT_GT(state.variance[0], 0.0f);
}

TEST(AdamW, ALearningRateOfZeroMovesNothing) {
  auto pool = create_core_pool(1, Bytes{0}).value();
  for (double rate : {0.0, 1e-300}) {
    State state(Precision::fp32, 300);
    state.param32[7] = 0.0f;
    const State before = state;
    adamw(state.chunk(), Precision::fp32,
          adamw_scalars({.learning_rate = rate, .weight_decay = 0.1}, 1, 0, 0), *pool);
    EXPECT_EQ(state.param32, before.param32);
    EXPECT_NE(state.momentum, before.momentum);
  }
}

TEST(AdamW, ScalarsAreMadeInDouble) {
  const AdamWScalars s = adamw_scalars({.learning_rate = 3e-4, .weight_decay = 0.1}, 1000, 0.0, 0.0);
  const double step_size = 3e-4 / (1 - std::pow(0.9, 1000.0));
  EXPECT_EQ(s.root_factor, static_cast<float>(1 / std::sqrt(1 - std::pow(0.999, 1000.0)) / step_size));
  EXPECT_EQ(s.root_offset, static_cast<float>(1e-8 / step_size));
  EXPECT_EQ(s.grad_to_momentum, static_cast<float>(1 - 0.9));
  EXPECT_EQ(s.grad_to_root, static_cast<float>(std::sqrt(1 - 0.999)));
  EXPECT_EQ(scalars_of(3, 4.0).grad_to_momentum, static_cast<float>((1 - 0.9) / (4.0 + 1e-6)));
  EXPECT_EQ(s.decay, static_cast<float>(1 - 3e-5));
  EXPECT_EQ(s.grad_scale, 1.0f);
  EXPECT_FALSE(s.skip);
  EXPECT_EQ(scalars_of(3, 0.5).grad_scale, 1.0f);
  EXPECT_EQ(scalars_of(3, 4.0).grad_scale, static_cast<float>(1 / (4.0 + 1e-6)));
}

}  // namespace tidepool::adamw_test
