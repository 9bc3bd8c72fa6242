// Compares the rows of latent attention with their definition in double, and their gradient with the
// transposed map.
#include "kernels/latent/latent.h"

#include "tests/support/expert_routes.h"
#include "tests/support/references/latent.h"

namespace tidepool::test::latent_test {

class LatentTest : public testing::TestWithParam<std::tuple<LatentShape, bool>>, public LatentReference {
 protected:
  LatentTest() : LatentReference(std::get<0>(GetParam()), std::get<1>(GetParam())) {}
};

void expect_close(const std::vector<float>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (u64 i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 2e-5) << i;
}

TEST_P(LatentTest, JoinsAndRotatesRows) {
  std::vector<float> in[3];
  for (u32 i = 0; i < 3; ++i) in[i] = random_floats(u64{s.rows} * columns[i], i + 1);
  const std::vector<double> want = rows(in);
  for (const u32 workers : {1u, 2u, 3u}) {
    std::vector<float> out(want.size(), -7);
    latent_rows_cpu({.shape = s,
                     .q = in[0].data(),
                     .kv = in[1].data(),
                     .low = in[2].data(),
                     .out = out.data(),
                     .starts = starts_or_null(),
                     .inverse_frequencies = frequencies},
                    shared_pool(workers));
    expect_close(out, want);
  }
}

TEST_P(LatentTest, GradientIsTheTransposedMapAndLeavesTheLatent) {
  const auto dout = random_floats(u64{s.rows} * s.columns(), 4);
  std::vector<double> want[3];
  for (u32 i = 0; i < 3; ++i) want[i].resize(u64{s.rows} * columns[i]);
  add_gradients(dout, want);
  for (u32 row = 0; row < s.rows; ++row)
    for (u32 c = 0; c < s.kv_lora_rank; ++c) want[2][u64{row} * columns[2] + c] = -7;
  for (const u32 workers : {1u, 2u, 3u}) {
    std::vector<float> got[3];
    for (u32 i = 0; i < 3; ++i) got[i].assign(want[i].size(), -7);
    latent_rows_backward_cpu({.shape = s,
                              .dout = dout.data(),
                              .dq = got[0].data(),
                              .dkv = got[1].data(),
                              .dlow = got[2].data(),
                              .starts = starts_or_null(),
                              .inverse_frequencies = frequencies},
                             shared_pool(workers));
    for (u32 i = 0; i < 3; ++i) expect_close(got[i], want[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, LatentTest,
                         testing::Combine(testing::ValuesIn(latent_shapes), testing::Bool()));

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
