// Tests the device's layer norm against the CPU's, over odd shapes, precisions and alignments.
#include <tuple>

#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/norm/norm_launch.h"
#include "tests/cuda/cuda_fixture.h"

namespace tidepool::test::layer_norm_test {

struct NormShape {
  u32 rows, columns;
};
using NormCase =
    std::tuple<NormShape, Precision, Precision, u64>;  // activations, parameters, elements off alignment
class CudaLayerNormTest : public CudaTest, public testing::WithParamInterface<NormCase> {};

TEST_P(CudaLayerNormTest, AgreesWithTheCpu) {
  const auto [shape, activations, parameters, shift] = GetParam();
  const auto [rows, columns] = shape;
  const u64 n = u64{rows} * columns;
  const DeviceValues x(random_floats(n, 1, 3.0f), activations, shift),
      dy(random_floats(n, 2), activations, shift);
  const DeviceValues weight(random_floats(columns, 4), parameters, shift),
      bias(random_floats(columns, 5), parameters, shift);
  const DeviceValues y(n, activations, shift), dx(random_floats(n, 3), activations, shift);
  const DeviceValues mean(rows, Precision::fp32), rstd(rows, Precision::fp32);
  const DeviceValues dweight(random_floats(columns, 6), Precision::fp32),
      dbias(random_floats(columns, 7), Precision::fp32);
  const DeviceValues partials(layer_norm_partials(rows, columns), Precision::fp32);
  const auto floats = [](const DeviceValues& v) { return v.values().fp32(); };

  std::vector<float> want_y(n), want_mean(rows), want_rstd(rows),
      want_dx = dx.given(), want_dweight = dweight.given(), want_dbias = dbias.given(),
      scratch(layer_norm_partials(rows, columns));
  const auto pool = make_pool(2);
  layer_norm_cpu({.rows = rows,
                  .columns = columns,
                  .x = x.given().data(),
                  .weight = param_of(weight.given()),
                  .bias = param_of(bias.given()),
                  .y = want_y.data(),
                  .mean = want_mean.data(),
                  .rstd = want_rstd.data()},
                 *pool);
  layer_norm_cuda({.rows = rows,
                   .columns = columns,
                   .x = x.values(),
                   .weight = weight.values(),
                   .bias = bias.values(),
                   .y = y.values(),
                   .mean = floats(mean),
                   .rstd = floats(rstd)},
                  stream_);
  synchronize();
  EXPECT_LE(relative_error(y.now(), want_y), tolerance(activations, 1e-6));
  EXPECT_LE(relative_error(mean.now(), want_mean), 1e-6);
  EXPECT_LE(relative_error(rstd.now(), want_rstd), 1e-6);

  LayerNormBackward back = {.rows = rows,
                            .columns = columns,
                            .x = x.given().data(),
                            .weight = param_of(weight.given()),
                            .mean = want_mean.data(),
                            .rstd = want_rstd.data(),
                            .dy = dy.given().data(),
                            .dx = want_dx.data(),
                            .add_to_dx = true,
                            .dweight = want_dweight.data(),
                            .dbias = want_dbias.data(),
                            .partials = scratch.data()};
  layer_norm_backward_cpu(back, *pool);
  back.x = x.values(), back.weight = weight.values(), back.dy = dy.values(), back.dx = dx.values();
  back.mean = floats(mean), back.rstd = floats(rstd), back.dweight = floats(dweight),
  back.dbias = floats(dbias);
  back.partials = floats(partials);
  layer_norm_backward_cuda(back, stream_);
  synchronize();
  // With a single column, the gradient is a difference of equal numbers.
  const double small = columns == 1 ? 1e-4 : 2e-6;
  EXPECT_LE(relative_error(dx.now(), want_dx), tolerance(activations, small));
  EXPECT_LE(relative_error(dweight.now(), want_dweight), small);
  EXPECT_LE(relative_error(dbias.now(), want_dbias), small);

  // Overwriting discards the old values, and the bits are the same each time.
  back.add_to_dx = back.accumulate = false;
  layer_norm_backward_cuda(back, stream_);
  synchronize();
  const auto first = dweight.now(), first_dx = dx.now();
  layer_norm_backward_cuda(back, stream_);
  synchronize();
  EXPECT_TRUE(same_bits(first, dweight.now()));
  EXPECT_TRUE(same_bits(first_dx, dx.now()));
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaLayerNormTest,
                         testing::Combine(testing::Values(NormShape{1, 1}, NormShape{3, 7},
                                                          NormShape{130, 40}, NormShape{65, 264},
                                                          NormShape{2, 5000}),
                                          testing::Values(Precision::fp32, Precision::bf16),
                                          testing::Values(Precision::fp32, Precision::bf16),
                                          testing::Values(u64{0}, u64{1})));
INSTANTIATE_TEST_SUITE_P(Fp16, CudaLayerNormTest,
                         testing::Combine(testing::Values(NormShape{3, 7}, NormShape{130, 40},
                                                          NormShape{65, 264}),
                                          testing::Values(Precision::fp32, Precision::fp16),
                                          testing::Values(Precision::fp16), testing::Values(u64{0}, u64{1})));

TEST(CudaNormLaunch, FitsTheDeviceAtTheExtremes) {
  for (const u32 rows : {1u, 64u, 65u, 1u << 20, cuda::grid_x_max}) {
    for (const u32 columns : {1u, 8u, 257u, 1u << 18}) {
      for (const auto& shape : {cuda::norm_rows_launch(rows, columns), cuda::norm_tiles_launch(rows, columns),
                                cuda::norm_sums_launch(2, columns)}) {
        EXPECT_TRUE(cuda::fits_every_device(shape)) << rows << " x " << columns;
      }
    }
  }
  EXPECT_EQ(cuda::norm_rows_launch(10, 768), (cuda::LaunchShape{.grid = {10}, .block = {96}}));
}

}  // namespace tidepool::test::layer_norm_test
