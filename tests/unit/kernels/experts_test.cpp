// Compares sorting, gathering and combining with plain code, for ranges from one expert up to all.
#include "tests/support/expert_routes.h"

namespace tidepool::test::experts_test {

class ExpertsTest : public testing::TestWithParam<RouteShape> {
 protected:
  static constexpr u32 columns = 37;
  const RouteShape s = GetParam();
  const u64 slots = u64{s.rows} * s.chosen;
  const std::vector<i32> choices = random_choices(s, 1);
  CorePool& pool = shared_pool(2);
};

TEST_P(ExpertsTest, SortsSlotsByExpertThenToken) {
  for (u32 size = 1; size <= s.experts; ++size) {
    for (const ExpertRange range : ranges_of(s.experts, size)) {
      std::vector<i32> want, offsets = {0}, places(slots, -1);
      for (u32 e = range.first; e < range.first + range.count; ++e) {
        for (u32 slot = 0; slot < slots; ++slot) {
          if (choices[slot] != static_cast<i32>(e)) continue;
          places[slot] = static_cast<i32>(want.size());
          want.push_back(static_cast<i32>(slot));
        }
        offsets.push_back(static_cast<i32>(want.size()));
      }
      SortedRange got(s, choices, range, pool);
      ASSERT_LE(want.size(), got.slots.size());
      ASSERT_EQ(got.offsets, offsets);
      ASSERT_EQ(got.places, places);
      for (u64 r = want.size(); r < got.slots.size(); ++r) ASSERT_EQ(got.slots[r], -9);
      got.slots.resize(want.size());
      ASSERT_EQ(got.slots, want);
    }
  }
}

TEST_P(ExpertsTest, GathersTheRowsOfSlots) {
  const auto x = random_floats(u64{s.rows} * columns, 2);
  for (u32 workers : {1u, 2u, 3u}) {
    for (u32 size : {1u, s.experts}) {
      const SortedRange r(s, choices, {s.experts - size, size}, pool);
      std::vector<float> y(u64{r.rows_max} * columns, -7);
      gather_rows_cpu({.rows_max = r.rows_max,
                       .columns = columns,
                       .chosen = s.chosen,
                       .row_count = &r.offsets.back(),
                       .slots = r.slots.data(),
                       .x = x.data(),
                       .y = y.data()},
                      shared_pool(workers));
      for (u64 i = 0; i < y.size(); ++i) {
        const u64 row = i / columns;
        ASSERT_EQ(y[i], row < r.rows() ? x[u64(r.slots[row]) / s.chosen * columns + i % columns] : -7);
      }
    }
  }
}

// All experts' outputs, by slot.
struct Outputs {
  std::vector<float> by_slot, weights;
  // Rows in the order of the range's places.
  std::vector<float> sorted(const SortedRange& r, u32 columns) const {
    std::vector<float> x(u64{r.rows_max} * columns, NAN);
    for (u32 row = 0; row < r.rows(); ++row) {
      std::copy_n(&by_slot[u64(r.slots[row]) * columns], columns, &x[u64{row} * columns]);
    }
    return x;
  }
};

TEST_P(ExpertsTest, CombinesInOrderOfExpertsWithTheSameBitsInAnyGroups) {
  const u64 n = u64{s.rows} * columns;
  const Outputs outputs = {random_floats(slots * columns, 3), random_floats(slots, 4)};
  const auto residual = random_floats(n, 5);
  for (const bool weighted : {true, false}) {
    for (const bool descending : {false, true}) {
      std::vector<double> want(residual.begin(), residual.end());
      for (u64 slot = 0; slot < slots; ++slot) {
        for (u32 c = 0; c < columns; ++c) {
          want[slot / s.chosen * columns + c] +=
              (weighted ? double(outputs.weights[slot]) : 1.0) * outputs.by_slot[slot * columns + c];
        }
      }
      std::vector<float> first;
      for (u32 size = s.experts; size >= 1; size = size > 3 ? size / 2 : size - 1) {
        auto ranges = ranges_of(s.experts, size);
        if (descending) std::reverse(ranges.begin(), ranges.end());
        CorePool& workers = shared_pool(1 + size % 3);
        std::vector<float> sum(n, NAN), y = residual;  // y in place of the residual
        for (const ExpertRange& range : ranges) {
          const SortedRange r(s, choices, range, pool);
          const auto x = outputs.sorted(r, columns);
          const bool last = range == ranges.back();
          combine_experts_cpu({.rows = s.rows,
                               .chosen = s.chosen,
                               .columns = columns,
                               .places = r.places.data(),
                               .experts = choices.data(),
                               .weights = weighted ? outputs.weights.data() : nullptr,
                               .descending = descending,
                               .x = x.data(),
                               .sum_in = range == ranges.front() ? nullptr : sum.data(),
                               .sum_out = last ? nullptr : sum.data(),
                               .residual = last ? ConstValues(y.data()) : nullptr,
                               .y = last ? Values(y.data()) : nullptr},
                              workers);
        }
        EXPECT_LE(relative_error(y, want), 1e-6);
        if (first.empty()) first = y;
        EXPECT_TRUE(same_bits(y, first)) << "groups of " << size;
      }
    }
  }
}

TEST_P(ExpertsTest, AddsTheBiasToGradientsOfWeights) {
  for (Precision precision : {Precision::fp32, Precision::bf16}) {
    const u64 stride = columns + 3;
    const auto dy_by_slot = random_floats(slots * columns, 6), start = random_floats(slots, 7);
    const auto biases = random_floats(s.experts * stride, 8), rounded = rounded_to(biases, precision);
    const HalfCopy half(biases, Precision::bf16);
    const Param bias = precision == Precision::fp32 ? param_of(biases) : half.param();
    std::vector<double> want(start.begin(), start.end());
    for (u64 slot = 0; slot < slots; ++slot) {
      for (u32 c = 0; c < columns; ++c) {
        want[slot] += double(dy_by_slot[slot * columns + c]) * rounded[u64(choices[slot]) * stride + c];
      }
    }
    std::vector<float> first;
    for (u32 size : {s.experts, 1u, (s.experts + 1) / 2}) {
      std::vector<float> dweights = start;
      for (const ExpertRange& range : ranges_of(s.experts, size)) {
        const SortedRange r(s, choices, range, pool);
        const auto dy = Outputs{dy_by_slot, {}}.sorted(r, columns);
        route_bias_gradient_cpu({.offsets = r.offsets.data(),
                                 .range_count = range.count,
                                 .rows_max = r.rows_max,
                                 .columns = columns,
                                 .slots = r.slots.data(),
                                 .dy = dy.data(),
                                 .bias = bias.at(range.first * stride),
                                 .expert_stride = stride,
                                 .dweights = dweights.data()},
                                shared_pool(1 + size % 3));
      }
      EXPECT_LE(relative_error(dweights, want), 1e-6);
      if (first.empty()) first = dweights;
      EXPECT_TRUE(same_bits(dweights, first));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, ExpertsTest, testing::ValuesIn(route_shapes));

}  // namespace tidepool::test::experts_test
