// Tests the device's paths to experts and back against the CPU's: integers and fp32 sums have the same bits.
#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/experts/experts_launch.h"
#include "tests/cuda/cuda_fixture.h"
#include "tests/support/expert_routes.h"

namespace tidepool::test::cuda_experts_test {

constexpr RouteShape more_shapes[] = {{2100, 9, 2}, {700, 130, 8}};  // more than a tile of choices

// A range's choices, sorted on the device.
struct Sorted {
  DeviceArray experts, offsets, slots, places;

  Sorted(const RouteShape& s, const std::vector<i32>& choices, const ExpertRange& range, cudaStream_t stream)
      : experts(choices.data(), choices.size() * 4),
        offsets((range.count + 1) * 4),
        slots(std::max<u64>(routed_rows_max(s.rows, s.chosen, range.count), 1) * 4),
        places(choices.size() * 4) {
    sort_by_expert_cuda({.rows = s.rows,
                         .chosen = s.chosen,
                         .experts = experts.as<i32>(),
                         .range = range,
                         .offsets = offsets.as<i32>(),
                         .slots = slots.as<i32>(),
                         .places = places.as<i32>()},
                        stream);
  }
};

class CudaExperts : public CudaTest {
 protected:
  CorePool& pool_ = shared_pool(1);

  void expect_sorted(const RouteShape& s, const ExpertRange& range);
  void expect_combined(const RouteShape& s, u32 columns, Precision precision, u64 shift);
};

void CudaExperts::expect_sorted(const RouteShape& s, const ExpertRange& range) {
  SCOPED_TRACE(testing::Message() << s.rows << " x " << s.chosen << " of " << s.experts << ", " << range.count
                                  << " from " << range.first);
  const auto choices = random_choices(s, 1);
  const SortedRange want(s, choices, range, pool_);
  const Sorted got(s, choices, range, stream_);
  synchronize();
  EXPECT_EQ(got.offsets.values<i32>(), want.offsets);
  EXPECT_EQ(got.places.values<i32>(), want.places);
  auto slots = got.slots.values<i32>(), want_slots = want.slots;
  slots.resize(want.rows()), want_slots.resize(want.rows());
  EXPECT_EQ(slots, want_slots);
}

TEST_F(CudaExperts, SortAsTheCpuDoes) {
  for (const RouteShape& s : route_shapes) {
    for (u32 size : {1u, 3u, s.experts}) {
      for (const ExpertRange& range : ranges_of(s.experts, size)) expect_sorted(s, range);
    }
  }
  for (const RouteShape& s : more_shapes) expect_sorted(s, {2, s.experts - 3});
}

TEST_F(CudaExperts, SortWithoutPlacesAndOutsideTheRange) {
  const RouteShape s = {300, 6, 2};
  const auto choices = random_choices(s, 1);
  const SortedRange want(s, choices, {1, 3}, pool_);
  const DeviceArray experts(choices.data(), choices.size() * 4), offsets(4 * 4), slots(600 * 4);
  SortByExpert op = {.rows = s.rows,
                     .chosen = s.chosen,
                     .experts = experts.as<i32>(),
                     .range = {1, 3},
                     .offsets = offsets.as<i32>(),
                     .slots = slots.as<i32>()};
  sort_by_expert_cuda(op, stream_);
  synchronize();
  EXPECT_EQ(offsets.values<i32>(), want.offsets);
  const DeviceArray places(600 * 4);
  op.range = {6, 2}, op.places = places.as<i32>();  // experts that nobody chose
  sort_by_expert_cuda(op, stream_);
  synchronize();
  EXPECT_EQ(offsets.values<i32>()[2], 0);
  EXPECT_EQ(places.values<i32>(), std::vector<i32>(600, -1));
}

TEST_F(CudaExperts, GatherCopiesBitsOfTrueRowsOnly) {
  for (const RouteShape& s : route_shapes) {
    const auto choices = random_choices(s, 1);
    const ExpertRange range = {s.experts / 3, s.experts - s.experts / 3};
    const SortedRange sorted(s, choices, range, pool_);
    const DeviceArray slots(sorted.slots.data(), sorted.slots.size() * 4),
        count(&sorted.offsets.back(), sizeof(i32));
    for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
      for (const u32 columns : {1u, 13u, 40u, 264u}) {
        const u64 shift = columns == 40 ? 1 : 0;
        const DeviceValues x(random_floats(u64{s.rows} * columns, 2), precision, shift);
        const std::vector<float> start(u64{sorted.rows_max} * columns, 7);
        const DeviceValues y(start, precision, shift);
        gather_rows_cuda({.rows_max = sorted.rows_max,
                          .columns = columns,
                          .chosen = s.chosen,
                          .row_count = count.as<i32>(),
                          .slots = slots.as<i32>(),
                          .x = x.values(),
                          .y = y.values()},
                         stream_);
        synchronize();
        std::vector<float> want = start;
        for (u32 r = 0; r < sorted.rows(); ++r) {
          const u64 token = static_cast<u32>(sorted.slots[r]) / s.chosen;
          std::copy_n(x.given().begin() + token * columns, columns, want.begin() + u64{r} * columns);
        }
        EXPECT_TRUE(same_bits(y.now(), want));
      }
    }
  }
}

// Sums of two ranges, upwards with weights or downwards without, and the residual at the end.
void CudaExperts::expect_combined(const RouteShape& s, u32 columns, Precision precision, u64 shift) {
  SCOPED_TRACE(testing::Message() << s.rows << " x " << columns << " " << name(precision) << " + " << shift);
  const auto choices = random_choices(s, 1);
  const auto weights = random_floats(choices.size(), 2);
  const u64 n = u64{s.rows} * columns;
  const DeviceValues weights_there(weights, Precision::fp32), residual(random_floats(n, 3), precision, shift);
  for (const bool up : {true, false}) {
    const DeviceValues sum(n, Precision::fp32, shift);
    std::vector<float> want_sum(n), want_y(n);
    std::vector<ExpertRange> ranges = ranges_of(s.experts, (s.experts + 1) / 2);
    if (!up) std::reverse(ranges.begin(), ranges.end());
    for (const ExpertRange& range : ranges) {
      const bool first = range == ranges.front(), last = range == ranges.back();
      const SortedRange sorted(s, choices, range, pool_);
      const Sorted there(s, choices, range, stream_);
      const DeviceValues x(random_floats(u64{sorted.rows_max} * columns, range.first), precision, shift);
      CombineExperts op = {.rows = s.rows,
                           .chosen = s.chosen,
                           .columns = columns,
                           .places = sorted.places.data(),
                           .experts = choices.data(),
                           .weights = up ? weights.data() : nullptr,
                           .descending = !up,
                           .x = x.given().data(),
                           .sum_in = first ? nullptr : want_sum.data(),
                           .sum_out = want_sum.data(),
                           .residual = last && up ? residual.given().data() : ConstValues(),
                           .y = last ? Values(want_y.data()) : Values()};
      combine_experts_cpu(op, pool_);
      op.places = there.places.as<i32>(), op.experts = there.experts.as<i32>();
      op.weights = up ? weights_there.values().fp32() : nullptr;
      op.x = x.values(), op.sum_in = first ? nullptr : sum.values().fp32(), op.sum_out = sum.values().fp32();
      if (op.residual) op.residual = residual.values();
      const DeviceValues y(n, precision, shift);
      if (last) op.y = y.values();
      combine_experts_cuda(op, stream_);
      synchronize();
      EXPECT_TRUE(same_bits(sum.now(), want_sum)) << up << range.first;
      if (!last) continue;
      EXPECT_TRUE(same_bits(y.now(), rounded_to(want_y, precision))) << up;
      if (!up || ranges.size() > 1) continue;
      op.y = residual.values(), op.sum_out = nullptr;  // in place, and the sum is not kept
      combine_experts_cuda(op, stream_);
      synchronize();
      EXPECT_TRUE(same_bits(residual.now(), y.now()));
    }
  }
}

TEST_F(CudaExperts, CombineHasTheCpusBits) {
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    for (const RouteShape& s : route_shapes) expect_combined(s, s.rows == 70 ? 264 : 13, precision, 0);
    expect_combined({33, 8, 2}, 40, precision, 0);
    expect_combined({33, 8, 2}, 40, precision, 1);
    expect_combined({5, 1, 1}, 2100, precision, 0);
    expect_combined({3, 70, 40}, 8, precision, 0);  // more choices than threads
  }
}

TEST_F(CudaExperts, RouteBiasGradientAgreesWithTheCpu) {
  const struct {
    Precision activations, parameters;
  } precisions[] = {{Precision::fp32, Precision::fp32},
                    {Precision::bf16, Precision::bf16},
                    {Precision::fp16, Precision::fp16},
                    {Precision::bf16, Precision::fp32}};
  for (const auto& [activations, parameters] : precisions) {
    for (const RouteShape& s : route_shapes) {
      const u32 columns = s.rows % 2 == 0 ? 264 : 13;
      const auto choices = random_choices(s, 1);
      const ExpertRange range = {s.experts / 3, s.experts - s.experts / 3};
      const SortedRange sorted(s, choices, range, pool_);
      const Sorted there(s, choices, range, stream_);
      const u64 stride = round_up(columns, 8) + 8;
      const DeviceValues dy(random_floats(u64{sorted.rows_max} * columns, 2), activations);
      const DeviceValues bias(random_floats(range.count * stride, 3), parameters);
      const DeviceValues dweights(random_floats(choices.size(), 4), Precision::fp32);
      std::vector<float> want = dweights.given();
      RouteBiasGradient op = {.offsets = sorted.offsets.data(),
                              .range_count = range.count,
                              .rows_max = sorted.rows_max,
                              .columns = columns,
                              .slots = sorted.slots.data(),
                              .dy = dy.given().data(),
                              .bias = bias.given().data(),
                              .expert_stride = stride,
                              .dweights = want.data()};
      route_bias_gradient_cpu(op, pool_);
      op.offsets = there.offsets.as<i32>(), op.slots = there.slots.as<i32>();
      op.dy = dy.values(), op.bias = bias.values(), op.dweights = dweights.values().fp32();
      route_bias_gradient_cuda(op, stream_);
      synchronize();
      EXPECT_LE(relative_error(dweights.now(), want), 2e-6);
    }
  }
}

TEST(CudaExpertsLaunch, FitsEveryDevice) {
  using namespace cuda;
  for (const u32 rows : {1u, 16384u, 1u << 31, ~0u}) {
    for (const u32 columns : {1u, 257u, 1u << 18}) {
      EXPECT_TRUE(fits_every_device(gather_rows_launch(rows, columns)));
      EXPECT_TRUE(
          fits_every_device(combine_experts_launch(std::min(rows, grid_x_max), columns, combine_chosen_max)));
    }
    EXPECT_TRUE(fits_every_device(route_bias_gradient_launch(rows)));
    EXPECT_TRUE(fits_every_device(sort_by_expert_launch(std::min(rows, 4096u))));
  }
  EXPECT_TRUE(fits_every_device(sort_by_expert_launch(0)));
}

}  // namespace tidepool::test::cuda_experts_test
