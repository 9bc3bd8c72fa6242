// Compares the rows of latent attention with their definition in double, and their gradient with the
// transposed map.
#include "kernels/latent/latent.h"

#include "tests/support/documents.h"
#include "tests/support/expert_routes.h"

namespace tidepool::test::latent_test {

const LatentShape shapes[] = {
    {.rows = 1, .tokens = 1, .heads = 1, .rank = 1, .plain = 1, .turned = 2, .value_size = 1},
    {.rows = 66,
     .tokens = 33,
     .heads = 3,
     .rank = 7,
     .plain = 5,
     .turned = 6,
     .value_size = 9,
     .interleaved = true},
    {.rows = 40,
     .tokens = 40,
     .heads = 4,
     .rank = 12,
     .plain = 0,
     .turned = 8,
     .value_size = 3,
     .factor = 1.3f},
    {.rows = 34,
     .tokens = 17,
     .heads = 2,
     .rank = 5,
     .plain = 11,
     .turned = 64,
     .value_size = 20,
     .interleaved = true,
     .factor = 0.7f}};

class LatentTest : public testing::TestWithParam<std::tuple<LatentShape, bool>> {
 protected:
  LatentTest() {
    for (u32 i = 0; i < s.turned / 2; ++i)
      frequencies[i] = static_cast<float>(std::pow(1000.0, -2.0 * i / s.turned));
  }

  // out[r, c] += factor in[r, column of its source], for each term of the map from q, kv and low to out. fn
  // (row, column of out, source: 0 q, 1 kv, 2 low, its column, factor).
  template <class Fn>
  void for_terms(Fn fn) const {
    const u32 size = s.plain + s.turned;
    for (u32 row = 0; row < s.rows; ++row)
      for (u32 head = 0; head < s.heads; ++head) {
        const u32 out_q = head * size, out_k = s.q_columns() + head * size,
                  out_v = 2 * s.q_columns() + head * s.value_size, in_kv = head * (s.plain + s.value_size);
        for (u32 c = 0; c < s.plain; ++c) {
          fn(row, out_q + c, 0, head * size + c, 1.0);
          fn(row, out_k + c, 1, in_kv + c, 1.0);
        }
        for (u32 c = 0; c < s.value_size; ++c) fn(row, out_v + c, 1, in_kv + s.plain + c, 1.0);
        turn(row, out_q + s.plain, 0, head * size + s.plain, fn);
        turn(row, out_k + s.plain, 2, s.rank, fn);
      }
  }
  template <class Fn>
  void turn(u32 row, u32 to, u32 source, u32 from, Fn fn) const {
    const u32 position = row % s.tokens - (documents ? u32(starts[row]) : 0), half = s.turned / 2;
    for (u32 i = 0; i < half; ++i) {
      const double angle = float(position) * frequencies[i];
      const double cosine = s.factor * std::cos(angle), sine = s.factor * std::sin(angle);
      const u32 a = from + (s.interleaved ? 2 * i : i), b = from + (s.interleaved ? 2 * i + 1 : i + half);
      fn(row, to + i, source, a, cosine), fn(row, to + i, source, b, -sine);
      fn(row, to + i + half, source, b, cosine), fn(row, to + i + half, source, a, sine);
    }
  }

  const LatentShape s = std::get<0>(GetParam());
  const bool documents = std::get<1>(GetParam());
  const std::vector<i32> starts = growing_documents(s.rows / s.tokens, s.tokens);
  const u32 columns[3] = {s.q_columns(), s.kv_columns(), s.low_columns()};
  RotaryFrequencies frequencies = {};
};

void expect_close(const std::vector<float>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (u64 i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 2e-5) << i;
}

TEST_P(LatentTest, JoinsAndRotatesRows) {
  std::vector<float> in[3];
  for (u32 i = 0; i < 3; ++i) in[i] = random_floats(u64{s.rows} * columns[i], i + 1);
  std::vector<double> want(u64{s.rows} * s.columns());
  for_terms([&](u32 row, u32 column, u32 source, u32 from, double factor) {
    want[u64{row} * s.columns() + column] += factor * in[source][u64{row} * columns[source] + from];
  });
  for (const u32 workers : {1u, 2u, 3u}) {
    std::vector<float> out(want.size(), -7);
    latent_rows_cpu({.shape = s,
                     .q = in[0].data(),
                     .kv = in[1].data(),
                     .low = in[2].data(),
                     .out = out.data(),
                     .starts = documents ? starts.data() : nullptr,
                     .inverse_frequencies = frequencies},
                    shared_pool(workers));
    expect_close(out, want);
  }
}

TEST_P(LatentTest, GradientIsTheTransposedMapAndLeavesTheLatent) {
  const auto dout = random_floats(u64{s.rows} * s.columns(), 4);
  std::vector<double> want[3];
  for (u32 i = 0; i < 3; ++i) want[i].resize(u64{s.rows} * columns[i]);
  for_terms([&](u32 row, u32 column, u32 source, u32 from, double factor) {
    want[source][u64{row} * columns[source] + from] += factor * dout[u64{row} * s.columns() + column];
  });
  for (u32 row = 0; row < s.rows; ++row)
    for (u32 c = 0; c < s.rank; ++c) want[2][u64{row} * columns[2] + c] = -7;
  for (const u32 workers : {1u, 2u, 3u}) {
    std::vector<float> got[3];
    for (u32 i = 0; i < 3; ++i) got[i].assign(want[i].size(), -7);
    latent_rows_backward_cpu({.shape = s,
                              .dout = dout.data(),
                              .dq = got[0].data(),
                              .dkv = got[1].data(),
                              .dlow = got[2].data(),
                              .starts = documents ? starts.data() : nullptr,
                              .inverse_frequencies = frequencies},
                             shared_pool(workers));
    for (u32 i = 0; i < 3; ++i) expect_close(got[i], want[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, LatentTest, testing::Combine(testing::ValuesIn(shapes), testing::Bool()));

TEST(CopyColumns, CopiesFirstColumnsOfAnyPrecisionAndLeavesTheRest) {
  constexpr u32 rows = 35, columns = 5, x_stride = 9, y_stride = 7;
  const auto x = random_floats(rows * x_stride, 1);
  const Bf16Copy half(x);
  for (const bool is_half : {false, true})
    for (const u32 workers : {1u, 2u, 3u}) {
      std::vector<float> y(rows * y_stride, -7);
      copy_columns_cpu({.rows = rows,
                        .columns = columns,
                        .x = is_half ? half.param() : param_of(x),
                        .x_stride = x_stride,
                        .y = y.data(),
                        .y_stride = y_stride},
                       shared_pool(workers));
      for (u32 i = 0; i < y.size(); ++i) {
        const u32 row = i / y_stride, column = i % y_stride;
        const float from = (is_half ? half.values : x)[row * x_stride + std::min(column, x_stride - 1)];
        ASSERT_EQ(y[i], column < columns ? from : -7) << i;
      }
    }
}

}  // namespace tidepool::test::latent_test
