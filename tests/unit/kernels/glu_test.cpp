// Compares gated units as experts use them with plain double code: clamped gates, interleaved columns, rows
// that only the device counts, and routing weights.
#include "kernels/glu/glu.h"

#include "tests/support/kernel_fixture.h"

namespace tidepool::test::glu_test {

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

// y of one element, and its slopes in gate and up.
struct Unit {
  double y, gate, up;
};
Unit unit_of(GluGate kind, GluClamp clamp, double g, double u) {
  if (kind == GluGate::silu) {
    const double s = logistic(g);
    return {g * s * u, u * (s + g * s * (1 - s)), g * s};
  }
  if (kind == GluGate::gelu) {
    const double root = std::sqrt(2 / M_PI), t = std::tanh(root * (g + 0.044715 * g * g * g));
    const double slope = 0.5 * (1 + t) + 0.5 * g * (1 - t * t) * root * (1 + 3 * 0.044715 * g * g);
    return {0.5 * g * (1 + t) * u, u * slope, 0.5 * g * (1 + t)};
  }
  if (kind == GluGate::squared_relu) return {g > 0 ? g * g : 0, g > 0 ? 2 * g : 0, 0};
  const double a = clamp.slope, bound = clamp.bound;
  const double gate = std::min(g, bound), up = std::min(std::max(u, -bound), bound), s = logistic(a * gate);
  const double slope = s + a * gate * s * (1 - s);
  return {(up + 1) * gate * s, g > bound ? 0 : (up + 1) * slope, std::abs(u) > bound ? 0 : gate * s};
}

struct GluCase {
  u32 rows, columns, true_rows;
  GluGate gate;
  bool interleaved;
  GluClamp clamp{};
};
class GluTest : public testing::TestWithParam<GluCase> {
 protected:
  const GluCase c = GetParam();
  const u64 n = u64{c.rows} * c.columns;
  const i32 count = static_cast<i32>(c.true_rows);
  const u32 inputs = glu_inputs(c.gate);
  const std::vector<float> gate_up = random_floats(inputs * n, 1, 5.0f), dy = random_floats(n, 2);

  u64 gate_at(u64 i) const {
    const u64 row = i / c.columns, column = i % c.columns;
    return inputs * row * c.columns + (c.interleaved ? 2 * column : column);
  }
  u64 up_at(u64 i) const { return gate_at(i) + (c.interleaved ? 1 : c.columns); }
  struct Gradients {
    std::vector<double> gate_up, value, weights;
  };
  Gradients gradients(const std::vector<i32>& slots, const std::vector<float>& weights) const {
    Gradients want = {std::vector<double>(inputs * n, -3), std::vector<double>(n, -3),
                      std::vector<double>(weights.size(), -3)};
    for (u32 r = 0; r < c.true_rows; ++r) want.weights[slots[r]] = 0;
    for (u64 i = 0; i < u64{c.true_rows} * c.columns; ++i) {
      const i32 slot = slots[i / c.columns];
      const double w = weights[slot];
      want.gate_up[gate_at(i)] = w * dy[i] * unit(i).gate;
      if (inputs == 2) want.gate_up[up_at(i)] = w * dy[i] * unit(i).up;
      want.value[i] = w * unit(i).y;
      want.weights[slot] += dy[i] * unit(i).y;
    }
    return want;
  }
  Unit unit(u64 i) const {
    return unit_of(c.gate, c.clamp, gate_up[gate_at(i)], inputs == 2 ? gate_up[up_at(i)] : 0);
  }
};

TEST_P(GluTest, ForwardMatchesDoubleUpToTheTrueCount) {
  std::vector<double> want(n, -3);
  for (u64 i = 0; i < u64{c.true_rows} * c.columns; ++i) want[i] = unit(i).y;
  std::vector<float> first;
  for (u32 workers : {1u, 2u, 3u}) {
    std::vector<float> y(n, -3);
    glu_cpu({.rows = c.rows,
             .columns = c.columns,
             .gate = c.gate,
             .clamp = c.clamp,
             .interleaved = c.interleaved,
             .row_count = &count,
             .gate_up = gate_up.data(),
             .y = y.data()},
            *make_pool(workers));
    EXPECT_LE(relative_error(y, want), 1e-6);
    if (workers == 1) first = y;
    EXPECT_TRUE(same_bits(y, first));
  }
}

TEST_P(GluTest, BackwardWithRoutingWeightsMatchesDoubleInPlaceToo) {
  const auto weights = random_floats(c.rows + 3, 3);
  std::vector<i32> slots(c.rows);
  for (u32 r = 0; r < c.rows; ++r) slots[r] = static_cast<i32>(c.rows + 2 - r);
  const Gradients want = gradients(slots, weights);
  std::vector<float> first;
  for (u32 workers : {1u, 2u, 3u}) {
    std::vector<float> d(inputs * n, -3), y(n, -3), got_dweights(weights.size(), -3);
    GluBackward op = {.rows = c.rows,
                      .columns = c.columns,
                      .gate = c.gate,
                      .clamp = c.clamp,
                      .interleaved = c.interleaved,
                      .row_count = &count,
                      .gate_up = gate_up.data(),
                      .dy = dy.data(),
                      .dgate_up = d.data(),
                      .value = y.data(),
                      .slots = slots.data(),
                      .weights = weights.data(),
                      .dweights = got_dweights.data()};
    const auto pool = make_pool(workers);
    glu_backward_cpu(op, *pool);
    EXPECT_LE(relative_error(d, want.gate_up), 1e-6);
    EXPECT_LE(relative_error(y, want.value), 1e-6);
    EXPECT_LE(relative_error(got_dweights, want.weights), 2e-6);
    std::vector<float> in_place = gate_up, value_in_place = dy;
    op.gate_up = op.dgate_up = in_place.data();
    op.dy = op.value = value_in_place.data();
    glu_backward_cpu(op, *pool);
    const u64 done = u64{c.true_rows} * c.columns;
    for (u64 i = 0; i < inputs * done; ++i) ASSERT_EQ(in_place[i], d[i]);
    for (u64 i = 0; i < done; ++i) ASSERT_EQ(value_in_place[i], y[i]);
    d.insert(d.end(), got_dweights.begin(), got_dweights.end());
    if (workers == 1) first = d;
    EXPECT_TRUE(same_bits(d, first));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, GluTest,
    testing::Values(GluCase{1, 1, 1, GluGate::clamped, true}, GluCase{5, 7, 0, GluGate::silu, false},
                    GluCase{40, 33, 29, GluGate::clamped, true}, GluCase{40, 64, 40, GluGate::clamped, false},
                    GluCase{35, 257, 17, GluGate::silu, true}, GluCase{35, 100, 34, GluGate::silu, false},
                    GluCase{18, 50, 18, GluGate::gelu, true},
                    GluCase{35, 101, 31, GluGate::squared_relu, false},
                    GluCase{4, 64, 4, GluGate::squared_relu, false},
                    GluCase{9, 41, 8, GluGate::clamped, true, {.bound = 2.5f, .slope = 1.3f}}));

// torch.clamp passes the gradient at the bound itself.
TEST(ClampedGlu, HasNoGradientBeyondItsBounds) {
  // gate, up
  const std::vector<float> x = {7, 7, 8, 7.5f, 1, -7, 1, -8, -50, 1, NAN, 1, 1, NAN};
  constexpr u32 columns = 7;
  const std::vector<float> dy(columns, 1.0f);
  std::vector<float> y(columns), d(2 * columns);
  glu_backward_cpu({.rows = 1,
                    .columns = columns,
                    .gate = GluGate::clamped,
                    .interleaved = true,
                    .gate_up = x.data(),
                    .dy = dy.data(),
                    .dgate_up = d.data(),
                    .value = y.data()},
                   *make_pool(1));
  EXPECT_NEAR(y[0], 8 * 7 * logistic(7 * 1.702), 1e-5);
  EXPECT_EQ(y[1], y[0]);
  EXPECT_NE(d[0], 0);
  EXPECT_NE(d[1], 0);
  EXPECT_EQ(d[2], 0);
  EXPECT_EQ(d[3], 0);
  EXPECT_NE(d[5], 0);
  EXPECT_EQ(d[7], 0);
  EXPECT_EQ(y[3], y[2]);
  EXPECT_NEAR(y[4], 0, 1e-30);
  EXPECT_TRUE(std::isnan(y[5]));
  EXPECT_TRUE(std::isnan(y[6]));
}

}  // namespace tidepool::test::glu_test
