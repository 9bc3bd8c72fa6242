// Tests grouped products and their gradients on the device, on tensor cores and on fused multiply-adds,
// against plain double code, and groups of experts against each other.
#include <cmath>
#include <numeric>

#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/experts/grouped_launch.h"
#include "tests/cuda/cuda_fixture.h"
#include "tests/support/cases.h"
#include "tests/support/expert_routes.h"
#include "tests/support/gpu_precision.h"

namespace tidepool::test::cuda_grouped_matmul_test {

struct Shape {
  std::vector<u32> counts;  // rows of each expert
  u32 n, k;
};
const Shape shapes[] = {
    {{1}, 1, 1},
    {{0, 3, 0, 0, 5, 1, 0}, 67, 5},
    {{17, 0, 64, 33}, 136, 48},
    {{0, 0, 300}, 264, 40},
    {{2, 130, 31}, 96, 168},
    {{0, 0}, 8, 8},
};

struct Units {
  Precision activations, parameters;
  int capability = 90;
};
constexpr Units all_units[] = {
    {Precision::fp32, Precision::fp32},     {Precision::fp32, Precision::bf16},
    {Precision::bf16, Precision::bf16},     {Precision::bf16, Precision::fp32},
    {Precision::bf16, Precision::bf16, 75}, {Precision::fp16, Precision::fp16},
    {Precision::fp16, Precision::fp16, 75}, {Precision::fp16, Precision::fp16, 70},
    {Precision::fp16, Precision::fp32, 70},
};

using Case = std::tuple<u32, u32, u64>;  // shape, units, elements off the alignment

// An expert's bias follows its weights.
class CudaGroupedMatmul : public CudaTest, public testing::WithParamInterface<Case> {
 protected:
  const Shape& c = shapes[std::get<0>(GetParam())];
  const Units& units = all_units[std::get<1>(GetParam())];
  const u64 shift = std::get<2>(GetParam());
  const u32 experts = static_cast<u32>(c.counts.size());
  const u64 bias_at = u64{c.n} * c.k, stride = round_up(bias_at + c.n, 8) + (shift != 0 ? 3 : 0);
  std::vector<i32> offsets = std::vector<i32>(experts + 1, 0);
  u32 rows = 0;
  static constexpr u32 spare_rows = 2;  // up to the upper bound

  void SetUp() override {
    CudaTest::SetUp();
    std::partial_sum(c.counts.begin(), c.counts.end(), offsets.begin() + 1);
    rows = static_cast<u32>(offsets.back());
#ifdef CUDA_EMULATED
    restart(1);
#else
    if (units.capability != 90) GTEST_SKIP() << "a real device cannot be changed";
    if (!gpu_multiplies(units.activations)) GTEST_SKIP() << "this GPU does not multiply bf16";
#endif
  }
#ifdef CUDA_EMULATED
  // With another order of blocks and threads.
  void restart(u64 seed) {
    ASSERT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
    const u64 shared_kib = units.capability < 75 ? 96 : units.capability < 80 ? 64 : 227;
    emulated_cuda::reset({.seed = seed,
                          .major = units.capability / 10,
                          .minor = units.capability % 10,
                          .shared_bytes_max = shared_kib * 1024});
    make_stream();
  }
#endif
  double error_max() const { return tolerance(units.activations, 2e-6); }
  // Activations [rows, columns], with NaN in rows that must not be read.
  std::vector<float> activations(u32 columns, u32 seed) const {
    std::vector<float> out = random_floats(u64{rows} * columns, seed);
    out.resize(u64{rows + spare_rows} * columns, NAN);
    return out;
  }
  std::vector<i32> offsets_of(const ExpertRange& range) const {
    std::vector<i32> out(offsets.begin() + range.first, offsets.begin() + range.first + range.count + 1);
    for (i32& offset : out) offset -= offsets[range.first];
    return out;
  }
  u64 begin_of(const ExpertRange& range) const { return static_cast<u32>(offsets[range.first]); }
  // Calls fn(expert, row, column of y, column of x, place of the weight).
  template <class Fn>
  void for_all(bool transposed, Fn fn) const {
    for (u32 e = 0; e < experts; ++e) {
      for (u64 r = static_cast<u32>(offsets[e]); r < static_cast<u32>(offsets[e + 1]); ++r) {
        for (u64 j = 0; j < c.k; ++j) {
          for (u64 i = 0; i < c.n; ++i) fn(e, r, i, j, e * stride + (transposed ? i * c.k + j : j * c.n + i));
        }
      }
    }
  }
  std::vector<double> wanted(const DeviceValues& x, const DeviceValues& w, const std::vector<float>& start,
                             bool transposed, bool accumulate) const;
  std::vector<double> wanted_gradient(const DeviceValues& x, const DeviceValues& dy,
                                      const std::vector<float>& start, const std::vector<float>& factors,
                                      bool transposed, bool accumulate) const;
};

std::vector<double> CudaGroupedMatmul::wanted(const DeviceValues& x, const DeviceValues& w,
                                              const std::vector<float>& start, bool transposed,
                                              bool accumulate) const {
  std::vector<double> want(start.begin(), start.end());
  for (u32 e = 0; e < experts && !accumulate; ++e) {
    for (u64 at = u64(offsets[e]) * c.n; at < u64(offsets[e + 1]) * c.n; ++at) {
      want[at] = double(w.given()[e * stride + bias_at + at % c.n]);
    }
  }
  for_all(transposed, [&](u32, u64 r, u64 i, u64 j, u64 at) {
    want[r * c.n + i] += 0.5 * double(x.given()[r * c.k + j]) * double(w.given()[at]);
  });
  return want;
}

TEST_P(CudaGroupedMatmul, MatchesDoubleInAnyGroups) {
  const DeviceValues x(activations(c.k, 1), units.activations, shift);
  const DeviceValues w(random_floats(experts * stride, 2), units.parameters, shift);
  const auto start = rounded_to(random_floats(u64{rows + spare_rows} * c.n, 3), units.activations);
  for (bool transposed : {false, true}) {
    for (bool accumulate : {false, true}) {
      const auto want = wanted(x, w, start, transposed, accumulate);
      std::vector<float> first;
      for (u32 size : {experts, 1u}) {
        const DeviceValues y(start, units.activations, shift);
        for (const ExpertRange& range : ranges_of(experts, size)) {
          const auto part = offsets_of(range);
          const DeviceArray on_device(part.data(), part.size() * 4);
          const Param of_range = ConstValues(w.values()).at(range.first * stride);
          grouped_matmul_cuda({.offsets = on_device.as<i32>(),
                               .experts = range.count,
                               .rows_max = rows + spare_rows,
                               .n = c.n,
                               .k = c.k,
                               .expected_rows = size == 1 ? 1u : 0u,  // then blocks loop
                               .x = ConstValues(x.values()).at(begin_of(range) * c.k),
                               .weight = of_range,
                               .expert_stride = stride,
                               .transposed = transposed,
                               .bias = accumulate ? Param() : of_range.at(bias_at),
                               .scale = 0.5f,
                               .accumulate = accumulate,
                               .y = y.values().at(begin_of(range) * c.n)},
                              stream_);
          synchronize();
        }
        const auto got = y.now();
        EXPECT_LE(relative_error(got, want), error_max()) << transposed << accumulate << size;
        for (u64 at = u64{rows} * c.n; at < start.size(); ++at) ASSERT_EQ(got[at], start[at]);
        if (size == experts) first = got;
        EXPECT_TRUE(same_bits(got, first)) << "groups of " << size;
      }
    }
  }
}

std::vector<double> CudaGroupedMatmul::wanted_gradient(const DeviceValues& x, const DeviceValues& dy,
                                                       const std::vector<float>& start,
                                                       const std::vector<float>& factors, bool transposed,
                                                       bool accumulate) const {
  std::vector<double> want(start.begin(), start.end());
  for (u64 at = 0; at < want.size() && !accumulate; ++at) {
    if (at % stride < bias_at + c.n) want[at] = 0;
  }
  for_all(transposed, [&](u32 e, u64 r, u64 i, u64 j, u64 at) {
    const double g = double(dy.given()[r * c.n + i]);
    want[at] += g * double(x.given()[r * c.k + j]);
    if (j == 0) want[e * stride + bias_at + i] += g * (factors.empty() ? 1.0 : double(factors[rows - 1 - r]));
  });
  return want;
}

TEST_P(CudaGroupedMatmul, GradientMatchesDoubleInAnyGroups) {
  if (units.parameters != units.activations) GTEST_SKIP() << "a gradient has no parameters";
  const DeviceValues x(activations(c.k, 1), units.activations, shift);
  const DeviceValues dy(activations(c.n, 2), units.activations, shift);
  const auto start = random_floats(experts * stride, 3);
  std::vector<i32> slots(rows + 1);  // never empty
  for (u32 r = 0; r < rows; ++r) slots[r] = static_cast<i32>(rows - 1 - r);
  const DeviceArray slots_there(slots.data(), slots.size() * 4);
  for (bool transposed : {false, true}) {
    for (bool accumulate : {false, true}) {
      const bool weighted = transposed != accumulate;
      const auto factors = weighted ? random_floats(rows, 4) : std::vector<float>();
      const DeviceValues factors_there(weighted && rows > 0 ? factors : std::vector<float>(1),
                                       Precision::fp32);
      const auto want = wanted_gradient(x, dy, start, factors, transposed, accumulate);
      std::vector<float> first;
      for (u32 size : {experts, 1u}) {
        const DeviceValues dw(start, Precision::fp32, shift);
        for (const ExpertRange& range : ranges_of(experts, size)) {
          const auto part = offsets_of(range);
          const DeviceArray on_device(part.data(), part.size() * 4);
          float* const of_range = dw.values().fp32() + range.first * stride;
          grouped_weight_gradient_cuda({.offsets = on_device.as<i32>(),
                                        .experts = range.count,
                                        .rows_max = rows + spare_rows,
                                        .n = c.n,
                                        .k = c.k,
                                        .x = ConstValues(x.values()).at(begin_of(range) * c.k),
                                        .dy = ConstValues(dy.values()).at(begin_of(range) * c.n),
                                        .dw = of_range,
                                        .expert_stride = stride,
                                        .dbias = of_range + bias_at,
                                        .bias_factors = weighted ? factors_there.values().fp32() : nullptr,
                                        .slots = weighted ? slots_there.as<i32>() + begin_of(range) : nullptr,
                                        .accumulate = accumulate,
                                        .transposed = transposed},
                                       stream_);
          synchronize();
        }
        const auto got = dw.now();
        EXPECT_LE(relative_error(got, want), 2e-6) << transposed << accumulate << size;
        if (size == experts) first = got;
        EXPECT_TRUE(same_bits(got, first)) << "groups of " << size;
      }
    }
  }
}

// Alignments take turns, unless all cases are wanted.
std::vector<Case> cases() {
  std::vector<Case> out;
  for (u32 shape = 0; shape < std::size(shapes); ++shape) {
    for (u32 units = 0; units < std::size(all_units); ++units) {
      for (const u64 shift : {0, 1}) {
        if (wants_all_cases() || (shape + units) % 2 == shift) out.emplace_back(shape, units, shift);
      }
    }
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaGroupedMatmul, testing::ValuesIn(cases()));

using CudaGroupedGradient = CudaTest;

// So bits do not depend on how many micro-batches have been accumulated before.
TEST_F(CudaGroupedGradient, AccumulatingAddsTheSameProduct) {
  constexpr u32 rows = 70, n = 40, k = 24;
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    const DeviceValues x(random_floats(rows * k, 1), precision), dy(random_floats(rows * n, 2), precision);
    const auto start = random_floats(2 * n * k, 3);
    const DeviceValues product(start, Precision::fp32), sum(start, Precision::fp32);
    const std::vector<i32> offsets = {0, 20, 70};
    const DeviceArray there(offsets.data(), offsets.size() * 4);
    GroupedWeightGradient op = {.offsets = there.as<i32>(),
                                .experts = 2,
                                .rows_max = rows,
                                .n = n,
                                .k = k,
                                .x = x.values(),
                                .dy = dy.values(),
                                .dw = product.values().fp32(),
                                .expert_stride = n * k,
                                .accumulate = false};
    grouped_weight_gradient_cuda(op, stream_);
    op.dw = sum.values().fp32(), op.accumulate = true;
    grouped_weight_gradient_cuda(op, stream_);
    synchronize();
    const auto of_product = product.now(), of_sum = sum.now();
    for (u64 at = 0; at < of_sum.size(); ++at) ASSERT_EQ(of_sum[at], start[at] + of_product[at]);
  }
}

TEST(CudaGroupedLaunch, FitsEveryDevice) {
  using namespace cuda;
  for (const u32 rows : {1u, 4096u, 1u << 31, ~0u}) {
    for (const u32 expected : {0u, 1u, 1u << 31}) {
      for (const u32 experts : {1u, 128u, 4096u}) {
        for (const u32 size : {1u, 8u, 1u << 18}) {
          for (const GroupedUnits units :
               {GroupedUnits::fma, GroupedUnits::tensor, GroupedUnits::tensor_sm70}) {
            for (const bool transposed : {false, true}) {
              const LaunchShape shape =
                  grouped_matmul_launch({rows, expected, experts}, size, units, transposed);
              EXPECT_TRUE(fits_every_device(shape));
              EXPECT_GE(u64{shape.grid.x} * grouped_tile, size);
            }
            const LaunchShape gradient = grouped_gradient_launch(size, size, experts, units);
            EXPECT_TRUE(fits_every_device(gradient));
            EXPECT_GE(u64{gradient.grid.y} * grouped_tile, size);
          }
          EXPECT_TRUE(fits_every_device(grouped_bias_gradient_launch(size, experts)));
        }
      }
    }
  }
}

TEST(CudaGroupedLaunch, TakesTensorCoresWhereTheyAre) {
  using namespace cuda;
  EXPECT_EQ(grouped_units(Precision::bf16, 90), GroupedUnits::tensor);
  EXPECT_EQ(grouped_units(Precision::bf16, 75), GroupedUnits::fma);
  EXPECT_EQ(grouped_units(Precision::fp16, 75), GroupedUnits::tensor);
  EXPECT_EQ(grouped_units(Precision::fp16, 70), GroupedUnits::tensor_sm70);
  EXPECT_EQ(grouped_units(Precision::fp32, 90), GroupedUnits::fma);
}

}  // namespace tidepool::test::cuda_grouped_matmul_test
