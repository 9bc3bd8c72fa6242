// Products of some columns of an array, scaled, and added to another product's result.
#include "tests/support/kernel_fixture.h"

namespace tidepool::test::matmul_parts_test {

constexpr u32 m = 70, n = 40, k = 6, x_stride = 19, y_stride = 53;

class MatmulPartsTest : public testing::Test {
 protected:
  std::unique_ptr<CorePool> pool = make_pool(2);
  std::vector<float> x = random_floats(m * x_stride, 1), w = random_floats(k * n, 2),
                     y = random_floats(m * y_stride, 3);

  double product(u32 row, u32 column) const {
    double sum = 0;
    for (u32 i = 0; i < k; ++i) sum += double(x[row * x_stride + i]) * w[i * n + column];
    return sum;
  }
};

TEST_F(MatmulPartsTest, StridesAndScaleAndNothingElseIsTouched) {
  const std::vector<float> before = y;
  matmul_cpu({.m = m,
              .n = n,
              .k = k,
              .x = x.data(),
              .x_stride = x_stride,
              .weight = param_of(w),
              .scale = 0.25f,
              .accumulate = true,
              .y = y.data(),
              .y_stride = y_stride},
             *pool);
  for (u32 row = 0; row < m; ++row)
    for (u32 column = 0; column < y_stride; ++column) {
      const u64 at = row * y_stride + column;
      if (column >= n) {
        ASSERT_EQ(y[at], before[at]);
      } else {
        ASSERT_NEAR(y[at], before[at] + 0.25 * product(row, column), 1e-5);
      }
    }
}

TEST_F(MatmulPartsTest, AddendComesBeforeTheEpilogue) {
  const std::vector<float> addend = random_floats(m * n, 4), pre_in = random_floats(m * n, 5);
  std::vector<float> sum(m * n), in_place = addend;
  Matmul op = {.m = m,
               .n = n,
               .k = k,
               .x = x.data(),
               .x_stride = x_stride,
               .weight = param_of(w),
               .addend = addend.data(),
               .y = sum.data()};
  matmul_cpu(op, *pool);
  for (u32 i = 0; i < m * n; ++i) ASSERT_NEAR(sum[i], addend[i] + product(i / n, i % n), 1e-5);

  // The same sum to the bit, in place and as GELU's saved input.
  op.addend = in_place.data(), op.y = in_place.data();
  matmul_cpu(op, *pool);
  EXPECT_EQ(in_place, sum);
  std::vector<float> pre(m * n), gelu(m * n), value(m * n), slope(m * n);
  op.epilogue = Epilogue::gelu, op.addend = addend.data(), op.pre = pre.data(), op.y = gelu.data();
  matmul_cpu(op, *pool);
  EXPECT_EQ(pre, sum);

  // GELU's gradient is that of the whole sum.
  op = {.m = m,
        .n = n,
        .k = k,
        .x = x.data(),
        .x_stride = x_stride,
        .weight = param_of(w),
        .addend = addend.data(),
        .epilogue = Epilogue::gelu_backward,
        .y = slope.data(),
        .pre_in = pre_in.data(),
        .value = value.data()};
  matmul_cpu(op, *pool);
  for (u32 i = 0; i < m * n; ++i) {
    const double z = pre_in[i], inner = std::sqrt(2 / M_PI) * (z + 0.044715 * z * z * z),
                 t = std::tanh(inner);
    const double gradient =
        0.5 * (1 + t) + 0.5 * z * (1 - t * t) * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * z * z);
    ASSERT_NEAR(slope[i], sum[i] * gradient, 1e-4);
  }
}

TEST_F(MatmulPartsTest, WeightGradientOfSomeColumns) {
  const std::vector<float> dy = random_floats(m * y_stride, 6), x = random_floats(m * x_stride, 7);
  for (const bool transposed : {true, false}) {
    std::vector<float> dw(n * k, NAN);
    weight_gradient_cpu({.m = m,
                         .n = n,
                         .k = k,
                         .x = x.data(),
                         .x_stride = x_stride,
                         .dy = dy.data(),
                         .dy_stride = y_stride,
                         .dw = dw.data(),
                         .accumulate = false,
                         .transposed = transposed},
                        *pool);
    for (u32 out = 0; out < n; ++out)
      for (u32 in = 0; in < k; ++in) {
        double sum = 0;
        for (u32 row = 0; row < m; ++row) sum += double(dy[row * y_stride + out]) * x[row * x_stride + in];
        ASSERT_NEAR(dw[transposed ? out * k + in : in * n + out], sum, 1e-4);
      }
  }
}

}  // namespace tidepool::test::matmul_parts_test
