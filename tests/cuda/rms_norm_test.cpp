// Tests the device's RMS norm against the CPU's, over odd shapes, precisions and alignments.
#include <tuple>

#include "kernels/cuda/kernels_cuda_parts.h"
#include "tests/cuda/cuda_fixture.h"

namespace tidepool::test::rms_norm_test {

struct NormShape {
  u32 rows, columns;
};
// Activations, parameters, elements off the alignment.
using NormCase = std::tuple<NormShape, Precision, Precision, u64>;
class CudaRmsNormTest : public CudaTest, public testing::WithParamInterface<NormCase> {};

TEST_P(CudaRmsNormTest, AgreesWithTheCpu) {
  const auto [shape, activations, parameters, shift] = GetParam();
  const float offset = shift != 0 ? 1 : 0;
  const auto [rows, columns] = shape;
  const u64 n = u64{rows} * columns;
  const DeviceValues x(random_floats(n, 1, 3.0f), activations, shift),
      dy(random_floats(n, 2), activations, shift);
  const DeviceValues weight(random_floats(columns, 4), parameters, shift);
  const DeviceValues y(n, activations, shift), dx(random_floats(n, 3), activations, shift);
  const DeviceValues rstd(rows, Precision::fp32), dweight(random_floats(columns, 6), Precision::fp32);
  const DeviceValues partials(rms_norm_partials(rows, columns), Precision::fp32);

  std::vector<float> want_y(n), want_rstd(rows), want_dx = dx.given(), want_dweight = dweight.given(),
                                                 scratch(rms_norm_partials(rows, columns));
  const auto pool = make_pool(2);
  rms_norm_cpu({.rows = rows,
                .columns = columns,
                .x = x.given().data(),
                .weight = param_of(weight.given()),
                .weight_offset = offset,
                .y = want_y.data(),
                .rstd = want_rstd.data()},
               *pool);
  rms_norm_cuda({.rows = rows,
                 .columns = columns,
                 .x = x.values(),
                 .weight = weight.values(),
                 .weight_offset = offset,
                 .y = y.values(),
                 .rstd = rstd.values().fp32()},
                stream_);
  synchronize();
  EXPECT_LE(relative_error(y.now(), want_y), tolerance(activations, 1e-6));
  EXPECT_LE(relative_error(rstd.now(), want_rstd), 1e-6);

  RmsNormBackward back = {.rows = rows,
                          .columns = columns,
                          .x = x.given().data(),
                          .weight = param_of(weight.given()),
                          .weight_offset = offset,
                          .rstd = want_rstd.data(),
                          .dy = dy.given().data(),
                          .dx = want_dx.data(),
                          .add_to_dx = true,
                          .dweight = want_dweight.data(),
                          .partials = scratch.data()};
  rms_norm_backward_cpu(back, *pool);
  back.x = x.values(), back.weight = weight.values(), back.rstd = rstd.values().fp32();
  back.dy = dy.values(), back.dx = dx.values(), back.dweight = dweight.values().fp32();
  back.partials = partials.values().fp32();
  rms_norm_backward_cuda(back, stream_);
  synchronize();
  EXPECT_LE(relative_error(dx.now(), want_dx), tolerance(activations, 2e-6));
  EXPECT_LE(relative_error(dweight.now(), want_dweight), 2e-6);

  // Overwriting discards the old values, and the bits are the same each time, also with dx in place of dy.
  back.add_to_dx = back.accumulate = false;
  rms_norm_backward_cuda(back, stream_);
  synchronize();
  const auto first = dweight.now(), first_dx = dx.now();
  back.dx = dy.values();
  rms_norm_backward_cuda(back, stream_);
  synchronize();
  EXPECT_TRUE(same_bits(first, dweight.now()));
  EXPECT_TRUE(same_bits(first_dx, dy.now()));
}

TEST_P(CudaRmsNormTest, TakesAnFp32GradientBesideActivations) {
  const auto [shape, activations, parameters, shift] = GetParam();
  const auto [rows, columns] = shape;
  const u64 n = u64{rows} * columns;
  const DeviceValues x(random_floats(n, 1, 3.0f), activations, shift),
      dy(random_floats(n, 2), Precision::fp32, shift), dx(random_floats(n, 3), activations, shift);
  const DeviceValues weight(random_floats(columns, 4), parameters, shift),
      rstd(random_floats(rows, 5), Precision::fp32), dweight(random_floats(columns, 6), Precision::fp32),
      partials(rms_norm_partials(rows, columns), Precision::fp32);
  std::vector<float> want_dx = dx.given(), want_dweight = dweight.given(),
                     scratch(rms_norm_partials(rows, columns));
  RmsNormBackward op = {.rows = rows,
                        .columns = columns,
                        .x = x.given().data(),
                        .weight = param_of(weight.given()),
                        .rstd = rstd.given().data(),
                        .dy = dy.given().data(),
                        .dx = want_dx.data(),
                        .add_to_dx = true,
                        .dweight = want_dweight.data(),
                        .partials = scratch.data()};
  rms_norm_backward_cpu(op, *make_pool(1));
  op.x = x.values(), op.weight = weight.values(), op.rstd = rstd.values().fp32(), op.dy = dy.values();
  op.dx = dx.values(), op.dweight = dweight.values().fp32(), op.partials = partials.values().fp32();
  rms_norm_backward_cuda(op, stream_);
  synchronize();
  EXPECT_LE(relative_error(dx.now(), want_dx), tolerance(activations, 2e-6));
  EXPECT_LE(relative_error(dweight.now(), want_dweight), 2e-6);
}

TEST_P(CudaRmsNormTest, AddsItselfToAResidual) {
  const auto [shape, activations, parameters, shift] = GetParam();
  const auto [rows, columns] = shape;
  const u64 n = u64{rows} * columns;
  const DeviceValues x(random_floats(n, 1, 3.0f), activations, shift),
      residual(random_floats(n, 2), activations, shift);
  const DeviceValues weight(random_floats(columns, 4), parameters, shift), y(n, activations, shift);
  std::vector<float> want(n);
  RmsNorm op = {.rows = rows,
                .columns = columns,
                .x = x.given().data(),
                .weight = param_of(weight.given()),
                .weight_offset = 1,
                .residual = residual.given().data(),
                .y = want.data()};
  rms_norm_cpu(op, *make_pool(1));
  op.x = x.values(), op.weight = weight.values(), op.residual = residual.values(), op.y = y.values();
  rms_norm_cuda(op, stream_);
  synchronize();
  EXPECT_LE(relative_error(y.now(), want), tolerance(activations, 1e-6));
  op.y = residual.values();  // in place
  rms_norm_cuda(op, stream_);
  synchronize();
  EXPECT_TRUE(same_bits(residual.now(), y.now()));
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaRmsNormTest,
                         testing::Combine(testing::Values(NormShape{1, 2}, NormShape{3, 7},
                                                          NormShape{130, 40}, NormShape{65, 264},
                                                          NormShape{2, 5000}),
                                          testing::Values(Precision::fp32, Precision::bf16),
                                          testing::Values(Precision::fp32, Precision::bf16),
                                          testing::Values(u64{0}, u64{1})));
INSTANTIATE_TEST_SUITE_P(Fp16, CudaRmsNormTest,
                         testing::Combine(testing::Values(NormShape{3, 7}, NormShape{130, 40},
                                                          NormShape{65, 264}),
                                          testing::Values(Precision::fp32, Precision::fp16),
                                          testing::Values(Precision::fp16), testing::Values(u64{0}, u64{1})));

}  // namespace tidepool::test::rms_norm_test
