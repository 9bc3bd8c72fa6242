// Compares RMS norm and gated linear units with plain double code, forward and backward.
#include <cmath>
#include <numbers>

#include "kernels/glu/glu.h"
#include "kernels/rms_norm/rms_norm.h"
#include "tests/support/kernel_fixture.h"
#include "tests/support/references/rotary.h"

namespace tidepool::test::llama_test {

struct NormCase {
  u32 rows, columns;
};
class RmsNormTest : public testing::TestWithParam<NormCase> {};

TEST_P(RmsNormTest, MatchesDoubleOnAnyThreads) {
  const auto [rows, columns] = GetParam();
  const u64 n = u64{rows} * columns;
  const auto x = random_floats(n, 1, 3.0f), dy = random_floats(n, 2), start = random_floats(n, 3);
  const auto weight = random_floats(columns, 4);
  std::vector<double> want_y(n), want_dx(n), want_dweight(columns, 0.0);
  for (u64 r = 0; r < rows; ++r) {
    norm_reference({&x[r * columns], columns}, weight, 1e-5, {&dy[r * columns], columns},
                   &want_y[r * columns], &want_dx[r * columns], want_dweight.data());
  }
  std::vector<float> first;
  for (u32 workers : {1u, 2u, 3u}) {
    const auto pool = make_pool(workers);
    std::vector<float> y(n, NAN), rstd(rows), dx(n, NAN), dweight(columns, NAN);
    std::vector<float> partials(rms_norm_partials(rows, columns), NAN);
    rms_norm_cpu({.rows = rows,
                  .columns = columns,
                  .x = x.data(),
                  .weight = param_of(weight),
                  .epsilon = 1e-5f,
                  .y = y.data(),
                  .rstd = rstd.data()},
                 *pool);
    RmsNormBackward back = {.rows = rows,
                            .columns = columns,
                            .x = x.data(),
                            .weight = param_of(weight),
                            .rstd = rstd.data(),
                            .dy = dy.data(),
                            .dx = dx.data(),
                            .dweight = dweight.data(),
                            .accumulate = false,
                            .partials = partials.data()};
    rms_norm_backward_cpu(back, *pool);
    EXPECT_LE(relative_error(y, want_y), 1e-6);
    EXPECT_LE(relative_error(dx, want_dx), 1e-6);
    EXPECT_LE(relative_error(dweight, want_dweight), 1e-6);

    std::vector<float> sum = start, sum_weight = weight, in_place = dy;  // added; and dx in place of dy
    back.dx = sum.data(), back.dweight = sum_weight.data();
    back.add_to_dx = back.accumulate = true;
    rms_norm_backward_cpu(back, *pool);
    for (u64 i = 0; i < n; ++i) ASSERT_EQ(sum[i], start[i] + dx[i]);
    for (u64 c = 0; c < columns; ++c) ASSERT_EQ(sum_weight[c], weight[c] + dweight[c]);
    back.dy = in_place.data(), back.dx = in_place.data(), back.add_to_dx = false;
    rms_norm_backward_cpu(back, *pool);
    EXPECT_TRUE(same_bits(in_place, dx));

    for (const auto* part : {&dx, &dweight, &rstd}) y.insert(y.end(), part->begin(), part->end());
    if (workers == 1) first = y;
    EXPECT_TRUE(same_bits(y, first)) << workers;
  }
}
INSTANTIATE_TEST_SUITE_P(Shapes, RmsNormTest,
                         testing::Values(NormCase{1, 2}, NormCase{1, 5}, NormCase{64, 48}, NormCase{130, 257},
                                         NormCase{33, 768}));

// Gemma's norm: the weight counts from one, and the norm is added to the residual stream.
TEST(RmsNorm, AddsAnOffsetToItsWeightAndItselfToAResidual) {
  constexpr u32 rows = 70, columns = 100;
  constexpr u64 n = rows * columns;
  const auto x = random_floats(n, 1), dy = random_floats(n, 2), residual = random_floats(n, 3);
  const auto weight = random_floats(columns, 4);
  std::vector<float> whole = weight;
  for (float& w : whole) w += 1;
  std::vector<double> want_y(n), want_dx(n), want_dweight(columns, 0.0);
  for (u64 r = 0; r < rows; ++r)
    norm_reference({&x[r * columns], columns}, whole, 1e-6, {&dy[r * columns], columns}, &want_y[r * columns],
                   &want_dx[r * columns], want_dweight.data());
  std::vector<double> want_sum = want_y;
  for (u64 i = 0; i < n; ++i) want_sum[i] += residual[i];
  const auto pool = make_pool(2);
  std::vector<float> y(n), rstd(rows), sum = residual, dx(n), dweight(columns);
  std::vector<float> partials(rms_norm_partials(rows, columns));
  RmsNorm op = {.rows = rows,
                .columns = columns,
                .x = x.data(),
                .weight = param_of(weight),
                .weight_offset = 1,
                .y = y.data(),
                .rstd = rstd.data()};
  rms_norm_cpu(op, *pool);
  op.residual = op.y = sum.data();  // in place
  rms_norm_cpu(op, *pool);
  rms_norm_backward_cpu({.rows = rows,
                         .columns = columns,
                         .x = x.data(),
                         .weight = param_of(weight),
                         .weight_offset = 1,
                         .rstd = rstd.data(),
                         .dy = dy.data(),
                         .dx = dx.data(),
                         .dweight = dweight.data(),
                         .accumulate = false,
                         .partials = partials.data()},
                        *pool);
  EXPECT_LE(relative_error(y, want_y), 1e-6);
  EXPECT_LE(relative_error(sum, want_sum), 1e-6);
  EXPECT_LE(relative_error(dx, want_dx), 1e-6);
  EXPECT_LE(relative_error(dweight, want_dweight), 1e-6);
}

TEST(RmsNorm, WidensParametersOfSixteenBits) {
  constexpr u32 rows = 70, columns = 100;
  const auto x = random_floats(rows * columns, 1), dy = random_floats(rows * columns, 2);
  const auto pool = make_pool(2);
  for (const Precision precision : {Precision::bf16, Precision::fp16}) {
    const HalfCopy weight(random_floats(columns, 3), precision);
    std::vector<float> results[2];
    for (const bool wide : {false, true}) {
      const Param param = wide ? param_of(weight.values) : weight.param();
      std::vector<float> y(x.size()), rstd(rows), dx(x.size()), dweight(columns);
      std::vector<float> partials(rms_norm_partials(rows, columns));
      rms_norm_cpu({.rows = rows,
                    .columns = columns,
                    .x = x.data(),
                    .weight = param,
                    .y = y.data(),
                    .rstd = rstd.data()},
                   *pool);
      rms_norm_backward_cpu({.rows = rows,
                             .columns = columns,
                             .x = x.data(),
                             .weight = param,
                             .rstd = rstd.data(),
                             .dy = dy.data(),
                             .dx = dx.data(),
                             .dweight = dweight.data(),
                             .accumulate = false,
                             .partials = partials.data()},
                            *pool);
      y.insert(y.end(), dx.begin(), dx.end());
      results[wide] = y;
    }
    EXPECT_TRUE(same_bits(results[0], results[1]));
  }
}

TEST(Glu, MatchesDoubleInPlaceToo) {
  for (const auto& [rows, columns] :
       {NormCase{1, 1}, NormCase{3, 7}, NormCase{130, 257}, NormCase{33, 768}}) {
    const u64 n = u64{rows} * columns;
    const auto gate_up = random_floats(2 * n, 1, 4.0f), dy = random_floats(n, 2);
    std::vector<double> want_y(n), want(2 * n);
    for (u64 r = 0; r < rows; ++r) {
      for (u64 c = 0; c < columns; ++c) {
        const u64 gate = 2 * r * columns + c, at = r * columns + c;
        const double g = gate_up[gate], u = gate_up[gate + columns], s = 1 / (1 + std::exp(-g));
        want_y[at] = g * s * u;
        want[gate] = dy[at] * u * (s + g * s * (1 - s));
        want[gate + columns] = dy[at] * g * s;
      }
    }
    std::vector<float> first;
    for (u32 workers : {1u, 3u}) {
      const auto pool = make_pool(workers);
      std::vector<float> y(n, NAN), value(n, NAN), d(2 * n, NAN), in_place = gate_up, value_in_place = dy;
      glu_cpu({.rows = rows, .columns = columns, .gate_up = gate_up.data(), .y = y.data()}, *pool);
      GluBackward back = {.rows = rows,
                          .columns = columns,
                          .gate_up = gate_up.data(),
                          .dy = dy.data(),
                          .dgate_up = d.data(),
                          .value = value.data()};
      glu_backward_cpu(back, *pool);
      EXPECT_LE(relative_error(y, want_y), 1e-6);
      EXPECT_LE(relative_error(d, want), 1e-6);
      EXPECT_TRUE(same_bits(value, y));
      back.gate_up = back.dgate_up = in_place.data();
      back.dy = back.value = value_in_place.data();
      glu_backward_cpu(back, *pool);
      EXPECT_TRUE(same_bits(in_place, d));
      EXPECT_TRUE(same_bits(value_in_place, y));
      d.insert(d.end(), y.begin(), y.end());
      if (workers == 1) first = d;
      EXPECT_TRUE(same_bits(d, first));
    }
  }
}

TEST(Glu, GegluMatchesDouble) {
  constexpr u32 rows = 33, columns = 257;
  constexpr u64 n = u64{rows} * columns;
  const auto gate_up = random_floats(2 * n, 1, 4.0f), dy = random_floats(n, 2);
  std::vector<double> want_y(n), want(2 * n);
  for (u64 r = 0; r < rows; ++r) {
    for (u64 c = 0; c < columns; ++c) {
      const u64 gate = 2 * r * columns + c, at = r * columns + c;
      const double g = gate_up[gate], u = gate_up[gate + columns];
      const double root = std::sqrt(2 / std::numbers::pi), t = std::tanh(root * (g + 0.044715 * g * g * g));
      const double gelu = 0.5 * g * (1 + t);
      const double slope = 0.5 * (1 + t) + 0.5 * g * (1 - t * t) * root * (1 + 3 * 0.044715 * g * g);
      want_y[at] = gelu * u;
      want[gate] = dy[at] * u * slope;
      want[gate + columns] = dy[at] * gelu;
    }
  }
  const auto pool = make_pool(2);
  std::vector<float> y(n), value(n), d(2 * n);
  glu_cpu({.rows = rows, .columns = columns, .gate = GluGate::gelu, .gate_up = gate_up.data(), .y = y.data()},
          *pool);
  glu_backward_cpu({.rows = rows,
                    .columns = columns,
                    .gate = GluGate::gelu,
                    .gate_up = gate_up.data(),
                    .dy = dy.data(),
                    .dgate_up = d.data(),
                    .value = value.data()},
                   *pool);
  EXPECT_LE(relative_error(y, want_y), 1e-6);
  EXPECT_LE(relative_error(d, want), 1e-6);
  EXPECT_TRUE(same_bits(value, y));
}

TEST(Glu, KeepsItsTailsAndNan) {
  const std::vector<float> gate_up = {-200.0f, 200.0f, NAN, 1.0f, 1.0f, 1.0f};  // 3 columns
  std::vector<float> y(3);
  glu_cpu({.rows = 1, .columns = 3, .gate_up = gate_up.data(), .y = y.data()}, *make_pool(1));
  EXPECT_NEAR(y[0], 0.0f, 1e-30f);
  EXPECT_EQ(y[1], 200.0f);
  EXPECT_TRUE(std::isnan(y[2]));
}

}  // namespace tidepool::test::llama_test
