// Gradients and their norm have the same bits on the device as on the CPU.
#include "kernels/gradient/gradient.h"

#include <cmath>
#include <limits>

#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/gradient/gradient_launch.h"
#include "tests/cuda/cuda_fixture.h"

namespace tidepool::test::gradient_test {

constexpr u64 cells_of_granule = norm_granule_elements / norm_cell_elements;

class CudaGradient : public CudaTest {
 protected:
  std::vector<double> doubles_of(const DeviceArray& array) { return array.values<double>(); }

  std::unique_ptr<CorePool> pool_ = make_pool(1);
};

TEST_F(CudaGradient, SumsUsesInOrderAndRoundsOnce) {
  for (const u64 n : {1, 8, 2048, 5001}) {
    for (const u64 shift : {0, 1}) {
      const auto a = random_floats(n, 1), b = random_floats(n, 2, 1e4f), c = random_floats(n, 3);
      const DeviceValues x(a, Precision::fp32, shift), y(b, Precision::fp32, shift),
          z(c, Precision::fp32, shift);
      const DeviceValues grad(n, Precision::bf16, shift), half(n, Precision::fp16, shift),
          sum(n, Precision::fp32, shift);
      const float* uses[] = {x.values().fp32(), y.values().fp32(), z.values().fp32()};
      finish_gradient_cuda(uses, grad.values().data, Precision::bf16, n, stream_);
      finish_gradient_cuda(uses, half.values().data, Precision::fp16, n, stream_);
      sum_in_order_cuda(uses, sum.values().fp32(), n, stream_);
      synchronize();
      finish_gradient_cuda(std::span(uses).first(1), x.values().data, Precision::fp32, n, stream_);
      synchronize();
      EXPECT_TRUE(same_bits(x.now(), a));
      finish_gradient_cuda(uses, x.values().data, Precision::fp32, n, stream_);
      synchronize();
      const auto x_now = x.now(), sum_now = sum.now(), grad_now = grad.now(), half_now = half.now();
      for (u64 i = 0; i < n; ++i) {
        ASSERT_EQ(x_now[i], (a[i] + b[i]) + c[i]) << i;
        ASSERT_EQ(sum_now[i], (a[i] + b[i]) + c[i]) << i;
        ASSERT_EQ(grad_now[i], float_from_bf16(bf16_from_float((a[i] + b[i]) + c[i]))) << i;
        ASSERT_EQ(half_now[i], float_from_fp16(fp16_from_float((a[i] + b[i]) + c[i]))) << i;
      }
      if (n > 100) break;
    }
  }
}

TEST_F(CudaGradient, RoundsNonFiniteValuesAsTheCpuDoes) {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> values = {inf, -inf, std::numeric_limits<float>::max(), -0.0f, 1e-40f, -1e-45f,
                               NAN, -NAN};
  const DeviceValues x(values, Precision::fp32), grad(8, Precision::bf16), half(8, Precision::fp16);
  const float* use = x.values().fp32();
  finish_gradient_cuda({&use, 1}, grad.values().data, Precision::bf16, 8, stream_);
  finish_gradient_cuda({&use, 1}, half.values().data, Precision::fp16, 8, stream_);
  synchronize();
  for (u64 i = 0; i < 8; ++i) {
    EXPECT_EQ(grad.halves()[i], bf16_from_float(values[i])) << i;
    EXPECT_EQ(half.halves()[i], fp16_from_float(values[i])) << i;
  }
}

TEST_F(CudaGradient, NormEqualsTheCpus) {
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    for (const u64 n : {u64{1}, u64{2047}, 2 * norm_cell_elements + 17, norm_granule_elements,
                        norm_granule_elements + 3 * norm_cell_elements}) {
      SCOPED_TRACE(n);
      const auto values = random_floats(n, 7);
      const HalfCopy halves(values, precision);
      const std::byte* host = precision == Precision::fp32
                                  ? bytes_of(values)
                                  : reinterpret_cast<const std::byte*>(halves.bits.data());
      std::vector<double> want(div_up(n, norm_granule_elements)), want_cells(div_up(n, norm_cell_elements));
      norm_partials(host, precision, n, want, *pool_);
      norm_cells(host, precision, n, want_cells);
      const DeviceValues grad(values, precision);
      const DeviceArray partials(want.size() * 8), cells(want_cells.size() * 8);
      norm_partials_cuda(grad.values().data, precision, n, partials.as<double>(), stream_);
      norm_cells_cuda(grad.values().data, precision, n, cells.as<double>(), stream_);
      synchronize();
      EXPECT_TRUE(same_bits(doubles_of(partials), want));
      EXPECT_TRUE(same_bits(doubles_of(cells), want_cells));
    }
  }
}

// If two devices own parts of a granule, its cells are summed by one of them.
TEST_F(CudaGradient, CellsOfASharedGranuleMakeItsPartial) {
  const u64 n = norm_granule_elements, cut = 5 * norm_cell_elements;
  const auto values = random_floats(n, 8);
  const DeviceValues grad(values, Precision::fp32);
  const DeviceArray cells(2 * cells_of_granule * 8), partials(4 * 8), whole(8);
  cells.write(std::vector<double>(2 * cells_of_granule).data(), cells.bytes());
  const u32 places[] = {1, 3};  // the first partial belongs to no shared granule
  const DeviceArray on_device(places, sizeof(places));
  double* shared = cells.as<double>() + cells_of_granule;
  norm_cells_cuda(grad.values().data, Precision::fp32, cut, shared, stream_);
  norm_cells_cuda(grad.values().at(cut).data, Precision::fp32, n - cut, shared + cut / norm_cell_elements,
                  stream_);
  norm_granules_cuda(cells.as<double>(), on_device.as<u32>(), 2, partials.as<double>(), stream_);
  norm_partials_cuda(grad.values().data, Precision::fp32, n, whole.as<double>(), stream_);
  synchronize();
  EXPECT_EQ(partials.value<double>(1), 0.0);
  EXPECT_EQ(partials.value<double>(3), whole.value<double>());
}

class CudaNormFinish : public CudaGradient {
 protected:
  StepResult finish(const std::vector<double>& losses, const std::vector<double>& partials, u64 tokens) {
    const DeviceArray scale(sizeof(LossScale));
    set_loss_scale_cuda({.scale = 512, .good_steps = 2, .skipped_steps = 1}, scale.as<LossScale>(), stream_);
    std::vector<Sums> sums;
    for (const double loss : losses) sums.push_back(Sums::of_loss(loss));
    const DeviceArray l(sums.data(), sums.size() * sizeof(Sums)), p(partials.data(), partials.size() * 8);
    const DeviceArray result(sizeof(StepResult));
    norm_finish_cuda({.sums = l.as<Sums>(),
                      .sums_count = static_cast<u32>(losses.size()),
                      .partials = p.as<double>(),
                      .partial_count = partials.size(),
                      .target_tokens = tokens,
                      .loss_scale = scale.as<LossScale>(),
                      .loss_scaling = {.growth_interval = 3},
                      .result = result.as<StepResult>()},
                     stream_);
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    const StepResult got = result.value<StepResult>();
    EXPECT_EQ(scale.value<LossScale>(), got.next_loss_scale);
    EXPECT_EQ(got.loss_scale.scale, 512);
    return got;
  }
};

TEST_F(CudaNormFinish, SumsInTheHostsOrder) {
  for (const u64 n : {1, 1023, 1024, 1025, 5000}) {
    std::vector<double> partials(n), losses = {1e3, 1e-13, 3.25};
    for (u64 i = 0; i < n; ++i) partials[i] = std::exp(20 * std::sin(double(i)));
    double squares = 0;
    for (const double partial : partials) squares += partial;
    const StepResult got = finish(losses, partials, 77);
    EXPECT_EQ(got.grad_norm, std::sqrt(squares) / 512) << n;
    EXPECT_EQ(got.next_loss_scale, (LossScale{.scale = 1024, .skipped_steps = 1}));
    EXPECT_EQ(got.loss, ((1e3 + 1e-13) + 3.25) / 77) << n;
    EXPECT_EQ(got.target_tokens, 77u);
    EXPECT_FALSE(got.skipped);
  }
}

TEST_F(CudaNormFinish, FlagsNonFiniteNorms) {
  EXPECT_TRUE(finish({1.0}, {1.0, NAN}, 1).skipped);
  EXPECT_TRUE(finish({1.0}, {std::numeric_limits<double>::infinity()}, 1).skipped);
  EXPECT_TRUE(finish({NAN, 1.0}, {1.0}, 1).skipped);
  EXPECT_EQ(finish({1.0}, {NAN}, 1).next_loss_scale, (LossScale{.scale = 256, .skipped_steps = 2}));
  EXPECT_EQ(finish({3.0}, {4.0}, 0).loss, 3.0);  // no target tokens
}

TEST(CudaGradientLaunch, FitsEveryDevice) {
  EXPECT_EQ(cuda::norm_launch(1).grid, cuda::Extent{1});
  EXPECT_EQ(cuda::norm_launch(norm_granule_elements + 1).grid, cuda::Extent{2});
  for (const u64 n : {u64{1}, u64{1} << 40}) EXPECT_TRUE(fits_every_device(cuda::norm_launch(n)));
}

}  // namespace tidepool::test::gradient_test
