// Compares tiled products with sums in double, over odd shapes, layouts, precisions and epilogues.
#include "kernels/activation/activation.h"
#include "kernels/matmul/tiling.h"
#include "tests/support/kernel_fixture.h"

namespace tidepool::test::matmul_test {

struct Shape {
  u32 m, n, k;
};
// Right factors with rows of 512 and 1024 are copied: in two pieces, and not for a last tile of 6 rows.
constexpr Shape shapes[] = {{1, 1, 1},       {3, 67, 5},      {72, 144, 48},
                            {257, 520, 33},  {300, 96, 1030}, {34, 512, 1030},
                            {262, 1024, 40}, {1030, 512, 40}, {1030, 40, 512}};

float at(const std::vector<float>& x, bool transposed, u64 row, u64 col, u64 rows, u64 columns) {
  return transposed ? x[col * rows + row] : x[row * columns + col];
}

std::vector<double> reference(const Shape& s, const std::vector<float>& x, const std::vector<float>& w,
                              bool transposed) {
  std::vector<double> y(u64{s.m} * s.n, 0.0);
  for (u64 i = 0; i < s.m; ++i)
    for (u64 k = 0; k < s.k; ++k)
      for (u64 j = 0; j < s.n; ++j)
        y[i * s.n + j] += double(x[i * s.k + k]) * double(at(w, transposed, k, j, s.k, s.n));
  return y;
}

double gelu(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }
double gelu_slope(double x) { return (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5; }

class MatmulTest : public testing::TestWithParam<Shape> {
 protected:
  Shape s = GetParam();
  std::unique_ptr<CorePool> pool = make_pool(2);
  std::vector<float> x = random_floats(u64{s.m} * s.k, 1), w = random_floats(u64{s.k} * s.n, 2);
  std::vector<float> bias = random_floats(s.n, 3), other = random_floats(u64{s.m} * s.n, 4);
  std::vector<float> y = std::vector<float>(u64{s.m} * s.n, NAN);

  Matmul op() { return {.m = s.m, .n = s.n, .k = s.k, .x = x.data(), .weight = param_of(w), .y = y.data()}; }
};

TEST_P(MatmulTest, BothLayoutsAndPrecisions) {
  for (bool transposed : {false, true}) {
    for (Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
      const HalfCopy rounded(w, precision), rounded_bias(bias, precision);
      const bool fp32 = precision == Precision::fp32;
      Matmul m = op();
      m.transposed = transposed;
      m.weight = fp32 ? param_of(w) : rounded.param();
      m.bias = fp32 ? param_of(bias) : rounded_bias.param();
      matmul_cpu(m, *pool);
      auto want = reference(s, x, rounded_to(w, precision), transposed);
      const std::vector<float> added = rounded_to(bias, precision);
      for (u64 i = 0; i < want.size(); ++i) want[i] += added[i % s.n];
      EXPECT_LE(relative_error(y, want), 1e-6) << transposed << name(precision);
    }
  }
}

TEST_P(MatmulTest, Accumulates) {
  Matmul m = op();
  y = other;
  m.accumulate = true;
  matmul_cpu(m, *pool);
  auto want = reference(s, x, w, false);
  for (u64 i = 0; i < want.size(); ++i) want[i] += other[i];
  EXPECT_LE(relative_error(y, want), 1e-6);
}

TEST_P(MatmulTest, GeluSavesWhatItSaw) {
  std::vector<float> pre(y.size(), NAN);
  Matmul m = op();
  m.epilogue = Epilogue::gelu;
  m.bias = param_of(bias);
  m.pre = pre.data();
  matmul_cpu(m, *pool);
  auto want = reference(s, x, w, false);
  for (u64 i = 0; i < want.size(); ++i) want[i] += bias[i % s.n];
  EXPECT_LE(relative_error(pre, want), 1e-6);
  for (double& v : want) v = gelu(v);
  EXPECT_LE(relative_error(y, want), 1e-6);
  const auto with_pre = y;
  m.pre = nullptr;
  matmul_cpu(m, *pool);
  EXPECT_TRUE(same_bits(y, with_pre));
}

TEST_P(MatmulTest, ResidualMayBeTheResult) {
  Matmul m = op();
  m.epilogue = Epilogue::residual;
  m.residual = other.data();
  matmul_cpu(m, *pool);
  auto want = reference(s, x, w, false);
  for (u64 i = 0; i < want.size(); ++i) want[i] += other[i];
  EXPECT_LE(relative_error(y, want), 1e-6);
  std::vector<float> in_place = other;
  m.y = in_place.data();
  m.residual = in_place.data();
  matmul_cpu(m, *pool);
  EXPECT_TRUE(same_bits(in_place, y));
}

TEST_P(MatmulTest, ResidualDropsWhatTheCounterSays) {
  std::vector<float> plain(y.size()), dropped(y.size());
  Matmul m = op();
  m.y = plain.data();
  matmul_cpu(m, *pool);
  const std::vector<float> zeros(y.size(), 0.0f);
  m.y = dropped.data();
  m.epilogue = Epilogue::residual;
  m.residual = zeros.data();
  m.dropout = {.p = 0.3f, .seed = 9, .step = 2, .micro_batch = 1, .tensor = 5};
  matmul_cpu(m, *pool);
  dropout_row(m.dropout, 0, plain.data(), plain.data(), plain.size());
  EXPECT_LE(relative_error(dropped, plain), 1e-6);
}

TEST_P(MatmulTest, GeluBackwardMayBeInPlace) {
  std::vector<float> value(y.size(), NAN);
  Matmul m = op();
  m.epilogue = Epilogue::gelu_backward;
  m.pre_in = other.data();
  m.value = value.data();
  matmul_cpu(m, *pool);
  auto want = reference(s, x, w, false);
  std::vector<double> values(want.size());
  for (u64 i = 0; i < want.size(); ++i) {
    want[i] *= gelu_slope(other[i]);
    values[i] = gelu(other[i]);
  }
  EXPECT_LE(relative_error(y, want), 2e-6);
  EXPECT_LE(relative_error(value, values), 1e-6);
  std::vector<float> in_place = other;
  m.y = in_place.data();
  m.pre_in = in_place.data();
  matmul_cpu(m, *pool);
  EXPECT_TRUE(same_bits(in_place, y));
}

TEST_P(MatmulTest, SquaredReluGoesForwardAndBack) {
  std::vector<float> pre(y.size(), NAN), value(y.size(), NAN);
  Matmul m = op();
  m.epilogue = Epilogue::squared_relu;
  m.pre = pre.data();
  matmul_cpu(m, *pool);
  auto want = reference(s, x, w, false), want_gradient = want;
  for (u64 i = 0; i < want.size(); ++i) {
    want[i] = std::pow(std::max(want[i], 0.0), 2);
    want_gradient[i] *= 2 * std::max<double>(other[i], 0);
  }
  EXPECT_LE(relative_error(y, want), 2e-6);
  m.epilogue = Epilogue::squared_relu_backward;
  m.pre = nullptr;
  m.pre_in = other.data();
  m.value = value.data();
  matmul_cpu(m, *pool);
  EXPECT_LE(relative_error(y, want_gradient), 1e-6);
  for (u64 i = 0; i < value.size(); ++i) ASSERT_EQ(value[i], other[i] > 0 ? other[i] * other[i] : 0) << i;
  std::vector<float> in_place = other;
  m.y = in_place.data();
  m.pre_in = in_place.data();
  matmul_cpu(m, *pool);
  EXPECT_TRUE(same_bits(in_place, y));
}

TEST_P(MatmulTest, WeightGradientAddsItsOwnProduct) {
  const auto dy = random_floats(u64{s.m} * s.n, 7);
  const auto start = random_floats(w.size(), 8), start_bias = random_floats(s.n, 9);
  std::vector<float> dw(w.size(), NAN), dbias(s.n, NAN);
  WeightGradient g = {.m = s.m,
                      .n = s.n,
                      .k = s.k,
                      .x = x.data(),
                      .dy = dy.data(),
                      .dw = dw.data(),
                      .dbias = dbias.data(),
                      .accumulate = false};
  weight_gradient_cpu(g, *pool);
  std::vector<double> want(w.size(), 0.0), want_bias(s.n, 0.0);
  for (u64 r = 0; r < s.m; ++r) {
    for (u64 j = 0; j < s.n; ++j) want_bias[j] += dy[r * s.n + j];
    for (u64 i = 0; i < s.k; ++i)
      for (u64 j = 0; j < s.n; ++j) want[i * s.n + j] += double(x[r * s.k + i]) * dy[r * s.n + j];
  }
  EXPECT_LE(relative_error(dw, want), 1e-6);
  EXPECT_LE(relative_error(dbias, want_bias), 1e-6);
  std::vector<float> sum = start, sum_bias = start_bias;
  g.dw = sum.data();
  g.dbias = sum_bias.data();
  g.accumulate = true;
  weight_gradient_cpu(g, *pool);
  for (u64 i = 0; i < sum.size(); ++i) ASSERT_EQ(sum[i], start[i] + dw[i]);
  for (u64 i = 0; i < s.n; ++i) ASSERT_EQ(sum_bias[i], start_bias[i] + dbias[i]);
}

TEST_P(MatmulTest, WeightGradientOfTransposedWeights) {
  const auto dy = random_floats(u64{s.m} * s.n, 7), start = random_floats(w.size(), 8);
  std::vector<double> want(w.size(), 0.0), want_bias(s.n, 0.0);
  for (u64 r = 0; r < s.m; ++r) {
    for (u64 j = 0; j < s.n; ++j) {
      want_bias[j] += dy[r * s.n + j];
      for (u64 i = 0; i < s.k; ++i) want[j * s.k + i] += double(x[r * s.k + i]) * dy[r * s.n + j];
    }
  }
  std::vector<float> first;
  for (u32 workers : {1u, 2u, 3u}) {
    const auto other_pool = make_pool(workers);
    std::vector<float> dw(w.size(), NAN), dbias(s.n, NAN), sum = start;
    WeightGradient g = {.m = s.m,
                        .n = s.n,
                        .k = s.k,
                        .x = x.data(),
                        .dy = dy.data(),
                        .dw = dw.data(),
                        .dbias = dbias.data(),
                        .accumulate = false,
                        .transposed = true};
    weight_gradient_cpu(g, *other_pool);
    EXPECT_LE(relative_error(dw, want), 1e-6);
    EXPECT_LE(relative_error(dbias, want_bias), 1e-6);
    g.dw = sum.data(), g.dbias = nullptr, g.accumulate = true;
    weight_gradient_cpu(g, *other_pool);
    for (u64 i = 0; i < sum.size(); ++i) ASSERT_EQ(sum[i], start[i] + dw[i]);
    dw.insert(dw.end(), dbias.begin(), dbias.end());
    if (workers == 1) first = dw;
    EXPECT_TRUE(same_bits(dw, first));
  }
}

TEST_P(MatmulTest, ThreadsChangeNoBit) {
  std::vector<std::vector<float>> results;
  for (u32 workers : {1u, 2u, 3u}) {
    const auto other_pool = make_pool(workers);
    Matmul m = op();
    m.epilogue = Epilogue::gelu;
    m.bias = param_of(bias);
    matmul_cpu(m, *other_pool);
    std::vector<float> dw(w.size()), dbias(s.n);
    weight_gradient_cpu({.m = s.m,
                         .n = s.n,
                         .k = s.k,
                         .x = x.data(),
                         .dy = y.data(),
                         .dw = dw.data(),
                         .dbias = dbias.data(),
                         .accumulate = false},
                        *other_pool);
    dw.insert(dw.end(), y.begin(), y.end());
    dw.insert(dw.end(), dbias.begin(), dbias.end());
    results.push_back(dw);
  }
  EXPECT_TRUE(same_bits(results[0], results[1]));
  EXPECT_TRUE(same_bits(results[0], results[2]));
}

INSTANTIATE_TEST_SUITE_P(Shapes, MatmulTest, testing::ValuesIn(shapes));

TEST(Tiling, CoversEveryElementOnce) {
  for (u32 m : {1u, 63u, 256u, 257u, 2048u}) {
    for (u32 n : {1u, 67u, 768u, 2304u, 8200u}) {
      const Tiling t = matmul_tiling(m, n);
      EXPECT_LE(t.tile_rows, tile_rows_max);
      EXPECT_LE(t.tile_cols, tile_cols_max);
      u64 area = 0;
      for (u32 i = 0; i < t.count(); ++i) {
        const Tile tile = t.tile(i);
        ASSERT_TRUE(tile.rows > 0 && tile.cols > 0 && tile.row + tile.rows <= m && tile.col + tile.cols <= n);
        area += u64{tile.rows} * tile.cols;
      }
      EXPECT_EQ(area, u64{m} * n);
    }
  }
}

TEST(Tiling, GivesSmallMachinesAnEvenLoad) {
  for (auto [m, n] : {std::pair{2048u, 768u}, {2048u, 2304u}, {256u, 2048u}, {256u, 8192u}, {768u, 768u}}) {
    const Tiling t = matmul_tiling(m, n);
    const double share = double(m) * n / 2;
    EXPECT_LE(double(div_up(t.count(), 2)) * t.tile_rows * t.tile_cols, 1.13 * share) << m << " " << n;
  }
}

TEST(Gelu, MatchesDoubleEverywhere) {
  for (float x = -12; x < 12; x += 0.01f) {
    float y = x, value = 0, dx = 0;
    const float one = 1.0f;
    gelu_row(&y, &y, 1);
    gelu_backward_row(&x, &one, &dx, &value, 1);
    EXPECT_EQ(y, value);
    EXPECT_NEAR(y, gelu(x), 1e-6 * std::abs(gelu(x)) + 1e-9) << x;
    EXPECT_NEAR(dx, gelu_slope(x), 1e-6) << x;
  }
  float nan = NAN;
  gelu_row(&nan, &nan, 1);
  EXPECT_TRUE(std::isnan(nan));
}

TEST(SquaredRelu, KeepsNaNAndIsZeroBelowZero) {
  float x[] = {-2.0f, -0.0f, 0.0f, 3.0f, NAN}, y[5], dx[5], value[5];
  const float dy[] = {1.0f, 1.0f, 1.0f, -2.0f, 1.0f};
  squared_relu_row(x, y, 5);
  squared_relu_backward_row(x, dy, dx, value, 5);
  const float want[] = {0, 0, 0, 9}, want_dx[] = {0, 0, 0, -12};
  for (u32 i = 0; i < 4; ++i) {
    EXPECT_EQ(y[i], want[i]) << i;
    EXPECT_EQ(value[i], want[i]) << i;
    EXPECT_EQ(dx[i], want_dx[i]) << i;
  }
  EXPECT_TRUE(std::isnan(y[4]) && std::isnan(dx[4]) && std::isnan(value[4]));
}

}  // namespace tidepool::test::matmul_test
