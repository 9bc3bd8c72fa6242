// Newton-Schulz steps: nearly orthogonal matrices, wherever they lie and whoever computes them.
#include "kernels/orthogonalize/orthogonalize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels/gradient/gradient.h"
#include "tidepool/fp16.h"

namespace tidepool::orthogonalize_test {

float bf16(double x) { return float_from_bf16(bf16_from_float(static_cast<float>(x))); }

using Matrix = std::vector<std::vector<double>>;

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix out(a.size(), std::vector<double>(b[0].size()));
  for (u64 i = 0; i < a.size(); ++i)
    for (u64 j = 0; j < b[0].size(); ++j)
      for (u64 k = 0; k < b.size(); ++k) out[i][j] += a[i][k] * b[k][j];
  return out;
}
Matrix transposed(const Matrix& a) {
  Matrix out(a[0].size(), std::vector<double>(a.size()));
  for (u64 i = 0; i < a.size(); ++i)
    for (u64 j = 0; j < a[0].size(); ++j) out[j][i] = a[i][j];
  return out;
}
Matrix rounded(Matrix a) {
  for (auto& row : a)
    for (double& x : row) x = bf16(x);
  return a;
}
Matrix sum(double of_a, const Matrix& a, double of_b, const Matrix& b) {
  Matrix out = a;
  for (u64 i = 0; i < a.size(); ++i)
    for (u64 j = 0; j < a[0].size(); ++j) out[i][j] = of_a * a[i][j] + of_b * b[i][j];
  return out;
}

// The header's list, with exact sums.
Matrix reference(Matrix x, u32 steps) {
  const bool tall = x.size() > x[0].size();
  if (tall) x = transposed(x);
  x = rounded(std::move(x));
  double squares = 0;
  for (const auto& row : x)
    for (const double v : row) squares += v * v;
  const double norm = bf16(std::sqrt(squares));
  for (auto& row : x)
    for (double& v : row) v = bf16(v / norm);
  for (u32 step = 0; step < steps; ++step) {
    const Matrix gram = rounded(product(x, transposed(x)));
    const Matrix polynomial = rounded(sum(-4.7750, gram, 2.0315, product(gram, gram)));
    x = rounded(sum(3.4445, x, 1, product(polynomial, x)));
  }
  return tall ? transposed(x) : x;
}

Matrix random_matrix(u32 rows, u32 columns, u32 seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Matrix out(rows, std::vector<double>(columns));
  for (auto& row : out)
    for (double& x : row) x = bf16(0.01 * normal(random));
  return out;
}

// Runs on a pool of so many workers.
void run(Orthogonalize op, u32 workers) {
  auto pool = create_core_pool(workers, kernel_scratch_per_worker).value();
  const auto kernels = create_cpu_kernels(*pool);
  std::vector<std::byte> memory(orthogonalize_workspace(op.matrix, op.products).value + 256);
  op.workspace = memory.data() + (256 - reinterpret_cast<std::uintptr_t>(memory.data()) % 256);
  orthogonalize(*kernels, op);
}

void expect_like_reference(const Matrix& matrix) {
  const u32 rows = static_cast<u32>(matrix.size()), columns = static_cast<u32>(matrix[0].size());
  std::vector<float> values;
  for (const auto& row : matrix) values.insert(values.end(), row.begin(), row.end());
  run({.matrix = {.rows = rows, .columns = columns, .row_step = columns}, .values = values.data()}, 2);
  const Matrix expected = reference(matrix, 5);
  for (u32 r = 0; r < rows; ++r)
    for (u32 c = 0; c < columns; ++c)
      ASSERT_NEAR(values[r * columns + c], expected[r][c], 0.03) << r << " " << c;
}

TEST(Orthogonalize, IsTheReferenceWithinItsRounding) {
  expect_like_reference(random_matrix(24, 24, 1));
  expect_like_reference(random_matrix(16, 70, 2));
  expect_like_reference(random_matrix(70, 16, 3));
  expect_like_reference(random_matrix(1, 33, 4));
}

TEST(Orthogonalize, MakesSingularValuesOfAboutOne) {
  std::vector<float> values;
  for (const auto& row : random_matrix(96, 40, 5)) values.insert(values.end(), row.begin(), row.end());
  run({.matrix = {.rows = 96, .columns = 40, .row_step = 40}, .values = values.data()}, 1);
  for (u32 trial = 0; trial < 20; ++trial) {  // |X v| for unit vectors v
    const Matrix v = random_matrix(40, 1, 100 + trial);
    double before = 0, after = 0;
    for (u32 c = 0; c < 40; ++c) before += v[c][0] * v[c][0];
    for (u32 r = 0; r < 96; ++r) {
      double dot = 0;
      for (u32 c = 0; c < 40; ++c) dot += static_cast<double>(values[r * 40 + c]) * v[c][0];
      after += dot * dot;
    }
    EXPECT_GT(std::sqrt(after / before), 0.6);
    EXPECT_LT(std::sqrt(after / before), 1.25);
  }
}

// A part of a joined tensor is the matrix that it is alone, and nothing beside it changes.
TEST(Orthogonalize, PlacesAndPrecisionsDoNotShow) {
  const Matrix matrix = random_matrix(12, 20, 6);
  std::vector<float> alone;
  for (const auto& row : matrix) alone.insert(alone.end(), row.begin(), row.end());
  run({.matrix = {.rows = 12, .columns = 20, .row_step = 20}, .values = alone.data(), .scale = 2}, 1);
  for (const u64 column_step : {1ul, 2ul}) {
    const MatrixPlace place = {
        .begin = 7, .rows = 12, .columns = 20, .row_step = 50, .column_step = column_step};
    std::vector<float> wide(700, 0.25f);
    std::vector<u16> halves(700, bf16_from_float(0.25f));
    const auto at = [&](u32 r, u32 c) { return 7 + r * 50 + c * column_step; };
    for (u32 r = 0; r < 12; ++r)
      for (u32 c = 0; c < 20; ++c)
        wide[at(r, c)] = static_cast<float>(matrix[r][c]), halves[at(r, c)] = bf16_from_float(wide[at(r, c)]);
    run({.matrix = place, .values = wide.data(), .scale = 2}, 3);
    run({.matrix = place,
         .values = {reinterpret_cast<std::byte*>(halves.data()), Precision::bf16},
         .scale = 2},
        2);
    u32 untouched = 0;
    for (u32 i = 0; i < 700; ++i) untouched += wide[i] == 0.25f && halves[i] == bf16_from_float(0.25f);
    EXPECT_GE(untouched, 700u - 240u);
    for (u32 r = 0; r < 12; ++r)
      for (u32 c = 0; c < 20; ++c) {
        EXPECT_EQ(wide[at(r, c)], alone[r * 20 + c]);
        EXPECT_EQ(float_from_bf16(halves[at(r, c)]), alone[r * 20 + c]);
      }
  }
}

TEST(Orthogonalize, LeavesAMatrixOfZeros) {
  std::vector<float> values(6 * 9, 0.0f);
  run({.matrix = {.rows = 6, .columns = 9, .row_step = 9}, .values = values.data()}, 1);
  for (const float x : values) EXPECT_EQ(x, 0.0f);
}

TEST(TensorMatrices, AreWhatATensorJoins) {
  Tensor qkv = {.name = "qkv", .shape = {10, 4}, .window_offset = 100};
  qkv.joined = {6, 2, 2};
  EXPECT_EQ(matrices_of(qkv),
            (std::vector<MatrixPlace>{{100, 6, 4, 4, 1}, {124, 2, 4, 4, 1}, {132, 2, 4, 4, 1}}));
  Tensor in_out = {.name = "c_attn", .shape = {4, 9}};
  in_out.in_out = true, in_out.joined = {3, 3, 3};
  EXPECT_EQ(matrices_of(in_out),
            (std::vector<MatrixPlace>{{0, 4, 3, 9, 1, true}, {3, 4, 3, 9, 1, true}, {6, 4, 3, 9, 1, true}}));
  Tensor gate_up = {.name = "gate_up_proj", .shape = {4, 6}};
  gate_up.in_out = gate_up.interleaved = true, gate_up.joined = {3, 3};
  EXPECT_EQ(matrices_of(gate_up), (std::vector<MatrixPlace>{{0, 4, 3, 6, 2, true}, {1, 4, 3, 6, 2, true}}));
  EXPECT_EQ(matrices_of({.name = "plain", .shape = {4, 6}}), (std::vector<MatrixPlace>{{0, 4, 6, 6, 1}}));
}

}  // namespace tidepool::orthogonalize_test
