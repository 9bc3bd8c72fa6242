// Adafactor against the formulas of transformers' in double, and its bits: every SIMD target, any number of
// workers, checksums, skipped steps.
#include "optimizers/adafactor/adafactor.h"

#include <gtest/gtest.h>

#include <limits>

#include "kernels/checksum/checksum.h"
#include "tests/support/whole_tensors.h"
#include "tests/unit/kernels/simd_targets.h"

namespace tidepool::adafactor_test {

using test::expect_hashes_of_memory, test::WholeTensors;

constexpr Precision precisions[] = {Precision::fp32, Precision::bf16, Precision::fp16};

// Vectors, one tile, several tiles, ragged ends, one row, one column.
const std::vector<UpdateTensor> shapes = {{.columns = 300},
                                          {.rows = 70, .columns = 130},
                                          {.rows = 300, .columns = 600},
                                          {.columns = 1},
                                          {.rows = 513, .columns = 7},
                                          {.rows = 1, .columns = 40},
                                          {.rows = 33, .columns = 1}};

WholeTensors state_of(Precision precision, u32 seed = 1) {
  return {Optim::adafactor, precision, shapes, seed};
}
UpdateScalars scalars_of(u64 t = 3, double norm = 2.0, double rate = 1e-2) {
  return update_scalars(update_step(Optim::adafactor, {.learning_rate = rate, .weight_decay = 0.1}, t, 1.0),
                        {.grad_norm = norm, .skipped = !std::isfinite(norm)});
}
void update(WholeTensors& state, const UpdateScalars& scalars, CorePool& pool, bool hashed = false) {
  tidepool::update(hashed ? state.hashed_chunk() : state.chunk(), state.slots, Optim::adafactor, scalars,
                   pool);
}

// Parameters of a tensor, its moments, and a step of transformers' Adafactor.
struct Reference {
  std::vector<double> param, rows, columns;

  void step(const UpdateTensor& shape, std::span<const double> grad, u64 t, double rate, double decay) {
    const u64 height = shape.height(), width = shape.columns;
    const double share = std::pow(static_cast<double>(t), -0.8), epsilon = 1e-30;
    std::vector<double> u(grad.size());
    if (shape.rows == 0) {
      for (u64 i = 0; i < width; ++i) {
        columns[i] = (1 - share) * columns[i] + share * (grad[i] * grad[i] + epsilon);
        u[i] = grad[i] / std::sqrt(columns[i]);
      }
    } else {
      for (double& x : rows) x *= 1 - share;
      for (double& x : columns) x *= 1 - share;
      for (u64 r = 0; r < height; ++r)
        for (u64 c = 0; c < width; ++c) {
          const double square = grad[r * width + c] * grad[r * width + c] + epsilon;
          rows[r] += share * square / static_cast<double>(width);
          columns[c] += share * square / static_cast<double>(height);
        }
      double mean = 0;
      for (const double x : rows) mean += x / static_cast<double>(height);
      for (u64 r = 0; r < height; ++r)
        for (u64 c = 0; c < width; ++c)
          u[r * width + c] = grad[r * width + c] / std::sqrt(rows[r] / mean) / std::sqrt(columns[c]);
    }
    double squares = 0;
    for (const double x : u) squares += x * x / static_cast<double>(u.size());
    const double clip = std::max(1.0, std::sqrt(squares));
    for (u64 i = 0; i < u.size(); ++i) param[i] += -decay * rate * param[i] - rate * u[i] / clip;
  }
};

TEST(Adafactor, IsTransformersInDouble) {
  auto pool = create_core_pool(2, Bytes{0}).value();
  constexpr double rate = 1e-2;
  WholeTensors state = state_of(Precision::fp32);
  std::vector<Reference> expected(shapes.size());
  for (u32 slot = 0; slot < 2; ++slot) std::ranges::fill(state.factors(slot), 0.0f);
  for (u64 i = 0; i < shapes.size(); ++i) {
    const UpdateTensor& t = state.tensors[i];
    for (u64 e = 0; e < t.elements(); ++e) expected[i].param.push_back(state.master(t.begin + e));
    expected[i].rows.resize(t.rows), expected[i].columns.resize(t.columns);
  }
  for (u64 step = 1; step <= 5; ++step) {
    // Gradients of unlike sizes, so that the factors matter.
    std::mt19937 random(static_cast<u32>(step));
    std::normal_distribution<float> normal;
    for (u64 i = 0; i < state.elements; ++i)
      if (state.is_inside(i)) state.set_grad(i, normal(random) * std::exp(normal(random)));
    update(state, scalars_of(step, 4.0, rate), *pool);
    const double clip = 1.0 / (4.0 + 1e-6);
    for (u64 i = 0; i < shapes.size(); ++i) {
      const UpdateTensor& t = state.tensors[i];
      std::vector<double> grad;
      for (u64 e = 0; e < t.elements(); ++e)
        grad.push_back(clip * static_cast<double>(state.gradient(t.begin + e)));
      expected[i].step(t, grad, step, rate, t.rows > 0 ? 0.1 : 0);
    }
  }
  u64 row = 0, column = 0;
  for (u64 i = 0; i < shapes.size(); ++i) {
    const UpdateTensor& t = state.tensors[i];
    for (u64 e = 0; e < t.elements(); ++e)
      ASSERT_NEAR(state.master(t.begin + e), expected[i].param[e],
                  1e-5 * rate + 3e-7 * std::abs(expected[i].param[e]))
          << i << " " << e;
    for (const double x : expected[i].rows) ASSERT_NEAR(state.factors(0)[row++] / x, 1, 1e-6) << i;
    for (const double x : expected[i].columns) ASSERT_NEAR(state.factors(1)[column++] / x, 1, 1e-6) << i;
  }
}

TEST(Adafactor, BitsDependOnNoTargetAndNoWorkers) {
  for (const Precision precision : precisions) {
    WholeTensors expected = state_of(precision);
    update(expected, scalars_of(), *create_core_pool(1, Bytes{0}).value());
    for (const u32 workers : {1u, 3u}) {
      auto pool = create_core_pool(workers, Bytes{0}).value();
      for_each_simd_target([&](const char* target) {
        WholeTensors state = state_of(precision);
        update(state, scalars_of(), *pool);
        EXPECT_TRUE(state.arrays == expected.arrays) << target << " " << workers;
      });
    }
  }
}

// As on a GPU: one number that is not finite spoils its tensor, and no other.
TEST(Adafactor, ANaNSpoilsItsTensor) {
  auto pool = create_core_pool(1, Bytes{0}).value();
  WholeTensors state = state_of(Precision::fp32);
  state.set_grad(state.tensors[2].begin + 5, std::numeric_limits<float>::quiet_NaN());
  state.set_grad(state.tensors[0].begin + 5, std::numeric_limits<float>::quiet_NaN());
  update(state, scalars_of(), *pool);
  for (u64 i = 0; i < shapes.size(); ++i)
    for (u64 e = 0; e < shapes[i].elements(); ++e)
      ASSERT_EQ(std::isnan(state.master(state.tensors[i].begin + e)), i == 0 || i == 2) << i << " " << e;
}

TEST(Adafactor, PaddingStaysZero) {
  auto pool = create_core_pool(2, Bytes{0}).value();
  for (const Precision precision : precisions) {
    WholeTensors state = state_of(precision);
    update(state, scalars_of(), *pool);
    for (u64 i = 0; i < state.elements; ++i)
      if (!state.is_inside(i)) {
        ASSERT_EQ(state.master(i), 0.0f);
        if (precision != Precision::fp32) ASSERT_EQ(state.half(i), 0u);
      }
  }
}

TEST(Adafactor, ChecksumsAreThoseOfTheResult) {
  auto pool = create_core_pool(2, Bytes{0}).value();
  for (const Precision precision : precisions)
    for_each_simd_target([&](const char* target) {
      SCOPED_TRACE(target);
      WholeTensors state = state_of(precision), plain = state_of(precision);
      update(state, scalars_of(), *pool, true);
      update(plain, scalars_of(), *pool);
      expect_hashes_of_memory(state);
      EXPECT_TRUE(state.arrays == plain.arrays);
    });
}

TEST(Adafactor, ASkippedStepLeavesTheStateAndStillHashes) {
  auto pool = create_core_pool(2, Bytes{0}).value();
  for (const Precision precision : precisions) {
    WholeTensors state = state_of(precision);
    const WholeTensors before = state;
    // A gradient may have lain in the bytes of fp16's parameters.
    if (precision == Precision::fp16) std::ranges::fill(state.arrays[0], std::byte{0x12});
    update(state, scalars_of(3, std::numeric_limits<double>::quiet_NaN()), *pool, true);
    EXPECT_TRUE(state.arrays == before.arrays);
    expect_hashes_of_memory(state);
  }
}

// The step is divided by its own size, so only weight decay could tell a factor of the gradient.
TEST(Adafactor, ClippingTheGradientChangesOnlyTheMoments) {
  auto pool = create_core_pool(1, Bytes{0}).value();
  WholeTensors whole = state_of(Precision::fp32), clipped = whole;
  for (WholeTensors* state : {&whole, &clipped})
    for (u32 slot = 0; slot < 2; ++slot) std::ranges::fill(state->factors(slot), 0.0f);
  update(whole, scalars_of(1, 0.5), *pool);
  update(clipped, scalars_of(1, 4.0), *pool);
  for (u64 i = 0; i < whole.elements; ++i) ASSERT_NEAR(whole.master(i), clipped.master(i), 1e-6f) << i;
  EXPECT_NEAR(clipped.factors(0)[0] / whole.factors(0)[0], 1.0 / 16, 1e-6);
}

}  // namespace tidepool::adafactor_test
