// Every update rule: the lists of their headers to the bit, checksums, skips, and cuts that do not show.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "kernels/checksum/checksum.h"
#include "optimizers/adamw/adamw.h"
#include "optimizers/lion/lion.h"
#include "optimizers/muon/muon.h"
#include "optimizers/sgd/sgd.h"
#include "tests/support/update_state.h"
#include "tests/unit/kernels/simd_targets.h"

namespace tidepool::update_test {

using test::expect_hashes_of_memory, test::UpdateState;

constexpr Precision precisions[] = {Precision::fp32, Precision::bf16, Precision::fp16};

struct Element {
  float param = 0;
  float state[2] = {};
};

// An element's share in its block's bound, and the bound of a slot after the update.
float added(Optim optim, float param, float grad, bool decays, const UpdateScalars& scalars) {
  if (optimizer(optim).base != Optim::sgd) return std::abs(grad);
  const SgdScalars s(scalars);
  return std::abs(std::fma(decays ? scalars.decay : scalars.no_decay, param, s.grad_to_step * grad));
}
float bound(Optim optim, u32 slot, float before, float added, const UpdateScalars& scalars) {
  if (optimizer(optim).base == Optim::muon) return 0;  // no codes
  if (optimizer(optim).base == Optim::sgd) return SgdScalars(scalars).bound(slot, before, added);
  if (optimizer(optim).base == Optim::lion) return LionScalars(scalars).bound(slot, before, added);
  return AdamWScalars(scalars).bound(slot, before, added);
}

float rounded(Precision precision, float x) {
  if (precision == Precision::bf16) return float_from_bf16(bf16_from_float(x));
  return precision == Precision::fp16 ? float_from_fp16(fp16_from_float(x)) : x;
}

// The headers' lists, one operation at a time. `precision`: of the gradient, and so of directions.
Element reference(Optim optim, Precision precision, Element x, float grad, bool decays,
                  const UpdateScalars& scalars) {
  const float decay = decays ? scalars.decay : scalars.no_decay;
  float& m = x.state[0];
  switch (optimizer(optim).base) {
    case Optim::adamw_torch: {
      const AdamWScalars s(scalars);
      const float root = s.grad_to_root * grad;
      float& v = x.state[1];
      m = std::fma(s.beta1, m, s.grad_to_momentum * grad);
      v = std::fma(root, root, s.beta2 * v);
      x.param = std::fma(decay, x.param, -(m / std::fma(std::sqrt(v), s.root_factor, s.root_offset)));
      return x;
    }
    case Optim::lion: {
      const LionScalars s(scalars);
      const float c = std::fma(s.beta1, m, s.grad_to_step * grad);
      m = std::fma(s.beta2, m, s.grad_to_momentum * grad);
      x.param = std::fma(decay, x.param, c > 0 ? -s.learning_rate : c < 0 ? s.learning_rate : 0.0f);
      return x;
    }
    case Optim::sgd: {
      const SgdScalars s(scalars);
      m = std::fma(s.momentum, m, std::fma(decay, x.param, s.grad_to_step * grad));
      x.param = std::fma(-s.learning_rate, m, x.param);
      return x;
    }
    case Optim::muon: {
      const MuonScalars s(scalars);
      const float of_gradient = s.grad_to_momentum * grad;
      m = std::fma(s.momentum, m, of_gradient);
      float direction = std::fma(s.momentum, m, of_gradient);
      if (precision == Precision::fp16)
        direction = std::clamp(direction * s.restored, -direction_most, direction_most);
      x.param = std::fma(decay, x.param, -(s.learning_rate * rounded(precision, direction)));
      return x;
    }
    default:
      return x;
  }
}

class Update : public ::testing::TestWithParam<Optim> {
 protected:
  UpdateState state_of(Precision precision, u64 n) const { return {GetParam(), precision, n}; }
  UpdateScalars scalars_of(u64 t = 3, double norm = 2.0) const {
    return test::update_scalars_of(GetParam(), t, norm);
  }
  void expect_like_reference(Precision precision, u64 n, const std::vector<DecaySegment>& segments) const {
    auto pool = create_core_pool(2, Bytes{0}).value();
    for_each_simd_target([&](const char* target) {
      UpdateState state = state_of(precision, n);
      state.segments = segments;
      const UpdateState before = state;
      state.update(scalars_of(), *pool);
      std::vector<std::vector<float>> made(state.rule_slots(), std::vector<float>(n));
      std::vector<float> most(div_up(n, u64{slot_block_elements}));
      for (const DecaySegment& segment : segments)
        for (u64 i = segment.begin; i < segment.end; ++i) {
          Element x{.param = before.master(i)};
          float& of_block = most[i / slot_block_elements];
          of_block =
              std::max(of_block, added(GetParam(), x.param, before.gradient(i), segment.decay, scalars_of()));
          for (u32 s = 0; s < state.rule_slots(); ++s) x.state[s] = before.state(s, i);
          x = reference(GetParam(), precision, x, before.gradient(i), segment.decay, scalars_of());
          ASSERT_EQ(state.master(i), x.param) << target << " " << i;
          if (precision == Precision::fp16) {
            ASSERT_EQ(state.half(i), fp16_from_float(x.param)) << target << " " << i;
          }
          for (u32 s = 0; s < state.rule_slots(); ++s) made[s][i] = x.state[s];
        }
      for (u32 s = 0; s < state.rule_slots(); ++s)
        ASSERT_EQ(state.arrays[state.first_of_rule() + s], stored(before, s, made[s], most))
            << target << " " << s;
    });
  }
  // A slot's memory with these values, rounded as in the update of scalars_of(). `most`: what a block adds.
  std::vector<std::byte> stored(const UpdateState& before, u32 slot, std::span<const float> values,
                                std::span<const float> most) const {
    std::vector<std::byte> out(before.arrays[before.first_of_rule() + slot].size());
    for (u64 i = 0; i < values.size(); i += slot_block_elements) {
      const u64 block = i / slot_block_elements;
      const BlockRandom random(before.rounding, scalars_of().step, block);
      float largest = 0;
      for (const float x : before.block_of(slot, i)) largest = std::max(largest, std::abs(x));
      encode_block(before.slot(slot).format,
                   values.subspan(i, std::min<u64>(slot_block_elements, values.size() - i)), &random, slot,
                   bound(GetParam(), slot, largest, most[block], scalars_of()), &out[before.offset(slot, i)]);
    }
    return out;
  }
};
INSTANTIATE_TEST_SUITE_P(Rules, Update, ::testing::ValuesIn(test::rules_of_elements),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST_P(Update, IsTheReferenceToTheBitOnEveryTarget) {
  for (Precision precision : precisions)
    for (u64 n : {1ul, 15ul, 16ul, 17ul, 2048ul, 16384ul, 16384ul + 33, 40000ul})
      expect_like_reference(precision, n, {{0, n, true}});
}

TEST_P(Update, SegmentsMayBeginAnywhere) {
  for (Precision precision : precisions)
    expect_like_reference(
        precision, 34816,
        {{0, 3, true}, {3, 1000, false}, {1000, 1024, true}, {1024, 20001, false}, {20001, 34816, true}});
}

// NaN and infinity in bf16 are split as by the scalar code, on every target.
TEST_P(Update, MasterThatIsNotFiniteIsSplitLikeAnyOther) {
  auto pool = create_core_pool(1, Bytes{0}).value();
  constexpr float inf = std::numeric_limits<float>::infinity();
  for_each_simd_target([&](const char* target) {
    UpdateState state = state_of(Precision::bf16, 256);
    state.set_master(5, std::numeric_limits<float>::quiet_NaN());
    state.set_master(40, inf), state.set_master(41, -inf);
    state.segments = {{0, 256, false}};
    state.update(scalars_of(), *pool);
    EXPECT_EQ(state.half(5), 0x7fc0) << target;
    EXPECT_EQ(state.low(5), 0) << target;
    if (optimizer(GetParam()).base !=
        Optim::sgd) {  // whose gradient has a share of the parameter, if only 0 of it
      EXPECT_EQ(state.master(40), inf) << target;
      EXPECT_EQ(state.master(41), -inf) << target;
    }
    EXPECT_TRUE(std::isfinite(state.master(4)) && std::isfinite(state.master(57))) << target;
  });
}

TEST_P(Update, WorkersAndSegmentSplitsDoNotShow) {
  for (Precision precision : precisions) {
    const u64 n = 5 * checksum_block_elements + 2048;
    UpdateState expected = state_of(precision, n);
    expected.update_hashed(scalars_of(), *create_core_pool(1, Bytes{0}).value());
    for (u32 workers : {2u, 3u}) {
      UpdateState state = state_of(precision, n);
      state.segments = {{0, 7777, true}, {7777, 50000, true}, {50000, n, true}};
      state.update_hashed(scalars_of(), *create_core_pool(workers, Bytes{0}).value());
      EXPECT_EQ(state.arrays, expected.arrays);
      EXPECT_EQ(state.hashes, expected.hashes);
    }
  }
}

TEST_P(Update, HashesMatchTheResultInMemory) {
  auto pool = create_core_pool(2, Bytes{0}).value();
  for (Precision precision : precisions)
    for (u64 n : {7ul, 256ul, 2048ul, 16384ul, 3 * 16384ul + 2048, 2 * 16384ul + 5 * 256, 16384ul + 1001})
      for_each_simd_target([&](const char* target) {
        SCOPED_TRACE(testing::Message() << target << " " << n);
        UpdateState state = state_of(precision, n);
        if (n >= 1000) state.segments = {{0, 301, false}, {301, n, true}};
        state.update_hashed(scalars_of(), *pool);
        expect_hashes_of_memory(state);
      });
}

TEST_P(Update, CutsDoNotShow) {
  auto pool = create_core_pool(1, Bytes{0}).value();
  for (Precision precision : precisions) {
    UpdateState whole = state_of(precision, 6144);
    UpdateState first = whole, second = whole;
    const u64 n = 2048;
    whole.update(scalars_of(), *pool);
    UpdateChunk a = first.chunk(), b = second.chunk();
    const DecaySegment segments[] = {{0, n, true}, {0, whole.elements - n, true}};
    a.elements = n, a.segments = {segments, 1};
    b.elements = whole.elements - n, b.segments = {segments + 1, 1};
    b.grad += n * value_bytes(precision), b.rounding.first_block += n / slot_block_elements;
    for (u32 i = 0; i < second.arrays.size(); ++i)
      b.arrays[i].data += second.slots.bytes(i == 0 ? Kind::param : state_kind(i - 1), n);
    update(a, first.slots, GetParam(), scalars_of(), *pool);
    update(b, second.slots, GetParam(), scalars_of(), *pool);
    for (u32 i = 0; i < whole.arrays.size(); ++i) {
      const u64 border = whole.slots.bytes(i == 0 ? Kind::param : state_kind(i - 1), n);
      std::copy_n(first.arrays[i].begin(), border, second.arrays[i].begin());
      EXPECT_EQ(second.arrays[i], whole.arrays[i]) << i;
    }
  }
}

TEST_P(Update, SomeHashesAreEnough) {
  auto pool = create_core_pool(1, Bytes{0}).value();
  UpdateState state = state_of(Precision::fp32, 20000), all = state;
  UpdateChunk c = state.hashed_chunk();
  c.arrays[1].hashes = {};
  update(c, state.slots, GetParam(), scalars_of(), *pool);
  all.update_hashed(scalars_of(), *pool);
  EXPECT_EQ(state.hashes[0], all.hashes[0]);
  EXPECT_EQ(state.hashes[1], std::vector<u64>(2, 0));
}

TEST_P(Update, ASkippedStepLeavesTheStateAndStillHashes) {
  auto pool = create_core_pool(2, Bytes{0}).value();
  for (Precision precision : precisions) {
    UpdateState state = state_of(precision, 40000);
    const UpdateState before = state;
    // A gradient may have lain in the bytes of fp16's parameters.
    if (precision == Precision::fp16) std::ranges::fill(state.arrays[0], std::byte{0x12});
    const UpdateScalars s = scalars_of(3, std::numeric_limits<double>::quiet_NaN());
    EXPECT_TRUE(s.skip);
    state.update_hashed(s, *pool);
    expect_hashes_of_memory(state);
    EXPECT_EQ(state.arrays, before.arrays);
  }
}

TEST_P(Update, MasterOfBf16TakesTheSameStepsAsFp32) {
  if (optimizer(GetParam()).place == UpdatePlace::streamed) GTEST_SKIP() << "directions are rounded";
  auto pool = create_core_pool(2, Bytes{0}).value();
  UpdateState split = state_of(Precision::bf16, 20000), whole = state_of(Precision::fp32, 20000);
  for (u64 i = 0; i < 20000; ++i) whole.set_grad(i, split.gradient(i));
  for (u64 t = 1; t <= 20; ++t) split.update(scalars_of(t), *pool), whole.update(scalars_of(t), *pool);
  for (u64 i = 0; i < 20000; ++i) ASSERT_EQ(split.master(i), whole.master(i)) << i;
}

// fp16's gradients are multiplied by the loss scale; dividing by a power of two is exact.
TEST_P(Update, TheLossScaleIsDividedOut) {
  if (optimizer(GetParam()).place == UpdatePlace::streamed) GTEST_SKIP() << "directions are rounded";
  auto pool = create_core_pool(2, Bytes{0}).value();
  const UpdateStep step = update_step(GetParam(), {.learning_rate = 1e-3, .weight_decay = 0.1}, 3, 1.0);
  UpdateState scaled = state_of(Precision::fp16, 5000), plain = state_of(Precision::fp32, 5000);
  for (u64 i = 0; i < 5000; ++i) {
    scaled.set_grad(i, 1024 * scaled.gradient(i));
    plain.set_grad(i, scaled.gradient(i) / 1024);
  }
  scaled.update(update_scalars(step, {.grad_norm = 2, .loss_scale = {.scale = 1024}}), *pool);
  plain.update(update_scalars(step, {.grad_norm = 2}), *pool);
  for (u64 i = 0; i < 5000; ++i) {
    ASSERT_EQ(scaled.master(i), plain.master(i)) << i;
    for (u32 s = 0; s < plain.rule_slots(); ++s) ASSERT_EQ(scaled.state(s, i), plain.state(s, i)) << i;
  }
}

TEST_P(Update, ALearningRateOfZeroMovesNoParameter) {
  auto pool = create_core_pool(1, Bytes{0}).value();
  for (double rate : {0.0, 1e-300}) {
    UpdateState state = state_of(Precision::fp32, 300);
    state.set_master(7, 0.0f);
    const UpdateState before = state;
    state.update(
        update_scalars(update_step(GetParam(), {.learning_rate = rate, .weight_decay = 0.1}, 1, 0), {}),
        *pool);
    EXPECT_EQ(state.arrays[0], before.arrays[0]);
    EXPECT_NE(state.arrays[1], before.arrays[1]);
  }
}

TEST(UpdateScalars, ClipAsPyTorchDoes) {
  const auto clip = [](double norm, double most) {
    return update_scalars(update_step(Optim::adamw_torch, {}, 1, most), {.grad_norm = norm});
  };
  EXPECT_EQ(clip(0.5, 1).clip, 1.0f);
  EXPECT_EQ(clip(4, 1).clip, static_cast<float>(1 / (4.0 + 1e-6)));
  EXPECT_EQ(clip(4, 0).clip, 1.0f);  // no clipping
  EXPECT_EQ(clip(4, 1).of_gradient[0], static_cast<float>((1 - 0.9) / (4.0 + 1e-6)));
  EXPECT_FALSE(clip(4, 1).skip);
}

TEST(AdamW, KeepsDenormals) {
  auto pool = create_core_pool(1, Bytes{0}).value();
  UpdateState state(Optim::adamw_torch, Precision::fp32, 64);
  for (u64 i = 0; i < 64; ++i) state.set_grad(i, 0), state.set_state(1, i, 1e-40f);
  state.update(test::update_scalars_of(Optim::adamw_torch), *pool);
  for (u64 i = 0; i < 64; ++i) EXPECT_EQ(state.state(1, i), 0.999f * 1e-40f);
  EXPECT_GT(state.state(1, 0), 0.0f);
}

TEST(AdamW, ScalarsAreMadeInDouble) {
  const UpdateScalars all = update_scalars(
      update_step(Optim::adamw_torch, {.learning_rate = 3e-4, .weight_decay = 0.1}, 1000, 0), {});
  const AdamWScalars s(all);
  const double step_size = 3e-4 / (1 - std::pow(0.9, 1000.0));
  EXPECT_EQ(s.root_factor, static_cast<float>(1 / std::sqrt(1 - std::pow(0.999, 1000.0)) / step_size));
  EXPECT_EQ(s.root_offset, static_cast<float>(1e-8 / step_size));
  EXPECT_EQ(s.grad_to_momentum, static_cast<float>(1 - 0.9));
  EXPECT_EQ(s.grad_to_root, static_cast<float>(std::sqrt(1 - 0.999)));
  EXPECT_EQ(all.decay, static_cast<float>(1 - 3e-5));
  EXPECT_EQ(all.no_decay, 1.0f);
}

// The sign of 0 is 0: a parameter whose gradient never was anything but 0 only decays.
TEST(Lion, LeavesWhatHasNoGradient) {
  auto pool = create_core_pool(1, Bytes{0}).value();
  for_each_simd_target([&](const char* target) {
    UpdateState state(Optim::lion, Precision::fp32, 300);
    for (u64 i = 0; i < 300; ++i) state.set_grad(i, 0), state.set_state(0, i, i % 2 == 0 ? 0.0f : -0.0f);
    state.segments = {{0, 300, false}};
    const UpdateState before = state;
    state.update(test::update_scalars_of(Optim::lion), *pool);
    EXPECT_EQ(state.arrays[0], before.arrays[0]) << target;
  });
}

TEST(Sgd, DecayIsPartOfTheGradient) {
  const UpdateScalars s =
      update_scalars(update_step(Optim::sgd, {.learning_rate = 0.5, .weight_decay = 0.25}, 9, 0), {});
  EXPECT_EQ(s.decay, 0.25f);
  EXPECT_EQ(s.no_decay, 0.0f);
  EXPECT_EQ(SgdScalars(s).learning_rate, 0.5f);
  EXPECT_EQ(SgdScalars(s).momentum, 0.9f);
  EXPECT_EQ(SgdScalars(s).grad_to_step, 1.0f);
}

TEST(StateSlots, ChunksFillWholePagesWhateverTheirFormat) {
  for (const Optim optim : test::rules_of_elements)
    EXPECT_EQ(state_slots(Precision::bf16, optim).cut_alignment(), cut_alignment_elements);
  const StateSlots slots = state_slots(Precision::bf16, Optim::adamw_8bit);
  const Kind momentum = slots.optimizer_slot(0);
  EXPECT_EQ(slots.bytes(momentum, 512), 520u);
  EXPECT_EQ(slots.bytes(momentum, 513), 780u);
  EXPECT_EQ(slots.chunk_bytes(momentum, 2048), 4096u);
  EXPECT_EQ(slots.chunk_bytes(momentum, 4096), 8192u);  // 4160, and zeros
  EXPECT_EQ(slots.elements(momentum, 520), 512u);
  EXPECT_EQ(slots.block_elements(0), 256u);
  EXPECT_EQ(slots.name(slots.master()), "master_low");
}

}  // namespace tidepool::update_test
