// Compares grouped products and their gradients with plain double code, and groups with each other.
#include "kernels/experts/grouped_matmul.h"

#include <numeric>

#include "tests/support/expert_routes.h"

namespace tidepool::test::grouped_matmul_test {

struct GroupedCase {
  std::vector<u32> counts;  // rows of each expert
  u32 n, k;
};
const GroupedCase grouped_cases[] = {
    {{1}, 1, 1},
    {{0, 3, 0, 0, 5, 1, 0}, 67, 5},
    {{17, 0, 64, 33}, 130, 48},
    {{0, 0, 300}, 520, 33},
    {{2, 16, 31, 48, 49, 5}, 96, 1030},
    {{31, 32, 40}, 512, 1030},  // right factors that are copied if there are rows enough
    {{0, 0}, 3, 2},
};

class GroupedMatmulTest : public testing::TestWithParam<GroupedCase> {
 protected:
  const GroupedCase c = GetParam();
  const u32 experts = static_cast<u32>(c.counts.size());
  const u64 bias_at = u64{c.n} * c.k, stride = bias_at + c.n + 5;  // an expert's bias follows its weights
  std::vector<i32> offsets = std::vector<i32>(experts + 1, 0);
  u32 rows = 0;

  void SetUp() override {
    std::partial_sum(c.counts.begin(), c.counts.end(), offsets.begin() + 1);
    rows = static_cast<u32>(offsets.back());
  }
  // Offsets of a range as sorting would leave them.
  std::vector<i32> offsets_of(const ExpertRange& range) const {
    std::vector<i32> out(offsets.begin() + range.first, offsets.begin() + range.first + range.count + 1);
    for (i32& offset : out) offset -= offsets[range.first];
    return out;
  }
  u64 begin_of(const ExpertRange& range) const { return static_cast<u32>(offsets[range.first]); }
  // Calls run(range, out, pool) for ranges that cover all experts, for each size of ranges, each time with
  // `out` as at the start. RETURNS: out, which must be the same for all sizes.
  template <class Run>
  std::vector<float> in_any_groups(const std::vector<float>& start, Run run) const {
    std::vector<float> first;
    for (u32 size = experts; size >= 1; --size) {
      std::vector<float> out = start;
      for (const ExpertRange& range : ranges_of(experts, size)) run(range, out, shared_pool(1 + size % 3));
      if (size == experts) first = out;
      EXPECT_TRUE(same_bits(out, first)) << "groups of " << size;
    }
    return first;
  }
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
};

TEST_P(GroupedMatmulTest, MatchesDoubleInAnyGroupsAndThreads) {
  const auto x = random_floats(u64{rows} * c.k, 1), w = random_floats(experts * stride, 2);
  const auto start = random_floats((u64{rows} + 2) * c.n, 3);
  for (bool transposed : {false, true}) {
    for (Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
      for (bool accumulate : {false, true}) {
        const auto rounded = rounded_to(w, precision);
        const HalfCopy half(w, precision == Precision::fp32 ? Precision::bf16 : precision);
        const Param weight = precision == Precision::fp32 ? param_of(w) : half.param();
        std::vector<double> want(start.begin(), start.end());
        for (u32 e = 0; e < experts && !accumulate; ++e) {
          for (u64 at = u64(offsets[e]) * c.n; at < u64(offsets[e + 1]) * c.n; ++at) {
            want[at] = rounded[e * stride + bias_at + at % c.n];
          }
        }
        for_all(transposed, [&](u32, u64 r, u64 i, u64 j, u64 at) {
          want[r * c.n + i] += 0.5 * double(x[r * c.k + j]) * rounded[at];
        });
        const auto y =
            in_any_groups(start, [&](const ExpertRange& range, std::vector<float>& out, CorePool& pool) {
              const auto part = offsets_of(range);
              const Param of_range = weight.at(range.first * stride);
              grouped_matmul_cpu({.offsets = part.data(),
                                  .experts = range.count,
                                  .rows_max = rows + 2,
                                  .n = c.n,
                                  .k = c.k,
                                  .x = ConstValues(x.data()).at(begin_of(range) * c.k),
                                  .weight = of_range,
                                  .expert_stride = stride,
                                  .transposed = transposed,
                                  .bias = accumulate ? Param() : of_range.at(bias_at),
                                  .scale = 0.5f,
                                  .accumulate = accumulate,
                                  .y = Values(out.data()).at(begin_of(range) * c.n)},
                                 pool);
            });
        EXPECT_LE(relative_error(y, want), 1e-6) << transposed << name(precision) << accumulate;
        for (u64 at = u64{rows} * c.n; at < start.size(); ++at) ASSERT_EQ(y[at], start[at]);
      }
    }
  }
}

// Columns of wider rows give the bits of packed ones, and nothing else is touched.
TEST_P(GroupedMatmulTest, StridesChangeNoBit) {
  const u32 wide = 2 * c.n + 3, at = c.n + 1, wide_x = c.k + 2;
  const auto x = random_floats(u64{rows} * c.k, 1), w = random_floats(experts * stride, 2),
             dy = random_floats(u64{rows} * c.n, 3);
  std::vector<float> spread_x(u64{rows} * wide_x, 7), spread_dy(u64{rows} * wide + wide, 7);
  for (u64 r = 0; r < rows; ++r) {
    std::copy_n(&x[r * c.k], c.k, &spread_x[r * wide_x]);
    std::copy_n(&dy[r * c.n], c.n, &spread_dy[r * wide + at]);
  }
  std::vector<float> y(dy), spread_y(spread_dy), dw(experts * stride, 1), spread_dw(dw);
  GroupedMatmul product = {.offsets = offsets.data(),
                           .experts = experts,
                           .rows_max = rows,
                           .n = c.n,
                           .k = c.k,
                           .x = x.data(),
                           .weight = param_of(w),
                           .expert_stride = stride,
                           .transposed = true,
                           .accumulate = true,
                           .y = y.data()};
  GroupedWeightGradient gradient = {.offsets = offsets.data(),
                                    .experts = experts,
                                    .rows_max = rows,
                                    .n = c.n,
                                    .k = c.k,
                                    .x = x.data(),
                                    .dy = dy.data(),
                                    .dw = dw.data(),
                                    .expert_stride = stride,
                                    .transposed = true};
  grouped_matmul_cpu(product, shared_pool(2));
  grouped_weight_gradient_cpu(gradient, shared_pool(2));
  product.x = spread_x.data(), product.x_stride = wide_x;
  product.y = spread_y.data() + at, product.y_stride = wide;
  gradient.dy = spread_dy.data() + at, gradient.dy_stride = wide, gradient.dw = spread_dw.data();
  grouped_matmul_cpu(product, shared_pool(3));
  grouped_weight_gradient_cpu(gradient, shared_pool(3));
  EXPECT_TRUE(same_bits(spread_dw, dw));
  for (u64 r = 0; r < rows; ++r)
    for (u32 column = 0; column < wide; ++column) {
      const bool inside = column >= at && column < at + c.n;
      ASSERT_EQ(spread_y[r * wide + column], inside ? y[r * c.n + column - at] : 7) << r << " " << column;
    }
}

TEST_P(GroupedMatmulTest, GradientMatchesDoubleInAnyGroupsAndThreads) {
  const auto x = random_floats(u64{rows} * c.k, 1), dy = random_floats(u64{rows} * c.n, 2);
  const auto start = random_floats(experts * stride, 3), factors = random_floats(rows, 4);
  std::vector<i32> slots(rows);
  for (u32 r = 0; r < rows; ++r) slots[r] = static_cast<i32>(rows - 1 - r);
  for (bool transposed : {false, true}) {
    for (bool accumulate : {false, true}) {
      for (bool weighted : {false, true}) {
        std::vector<double> want(start.begin(), start.end());
        for (u64 at = 0; at < want.size() && !accumulate; ++at) {
          if (at % stride < bias_at + c.n) want[at] = 0;
        }
        for_all(transposed, [&](u32 e, u64 r, u64 i, u64 j, u64 at) {
          const double g = dy[r * c.n + i];
          want[at] += g * x[r * c.k + j];
          if (j == 0) want[e * stride + bias_at + i] += g * (weighted ? factors[u64(slots[r])] : 1.0f);
        });
        const auto dw =
            in_any_groups(start, [&](const ExpertRange& range, std::vector<float>& out, CorePool& pool) {
              const auto part = offsets_of(range);
              const u64 begin = begin_of(range);
              grouped_weight_gradient_cpu({.offsets = part.data(),
                                           .experts = range.count,
                                           .rows_max = rows,
                                           .n = c.n,
                                           .k = c.k,
                                           .x = ConstValues(x.data()).at(begin * c.k),
                                           .dy = ConstValues(dy.data()).at(begin * c.n),
                                           .dw = &out[range.first * stride],
                                           .expert_stride = stride,
                                           .dbias = &out[range.first * stride + bias_at],
                                           .bias_factors = weighted ? factors.data() : nullptr,
                                           .slots = weighted ? slots.data() + begin : nullptr,
                                           .accumulate = accumulate,
                                           .transposed = transposed},
                                          pool);
            });
        EXPECT_LE(relative_error(dw, want), 1e-6) << transposed << accumulate << weighted;
      }
    }
  }
}

// So bits do not depend on how many micro-batches have been accumulated before.
TEST_P(GroupedMatmulTest, AccumulatingAddsTheSameProduct) {
  const auto x = random_floats(u64{rows} * c.k, 1), dy = random_floats(u64{rows} * c.n, 2);
  const auto start = random_floats(experts * stride, 3);
  std::vector<float> product(start), sum(start);
  CorePool& pool = shared_pool(2);
  GroupedWeightGradient op = {.offsets = offsets.data(),
                              .experts = experts,
                              .rows_max = rows,
                              .n = c.n,
                              .k = c.k,
                              .x = x.data(),
                              .dy = dy.data(),
                              .dw = product.data(),
                              .expert_stride = stride,
                              .dbias = &product[bias_at],
                              .accumulate = false};
  grouped_weight_gradient_cpu(op, pool);
  op.dw = sum.data(), op.dbias = &sum[bias_at], op.accumulate = true;
  grouped_weight_gradient_cpu(op, pool);
  for (u64 at = 0; at < sum.size(); ++at) {
    ASSERT_EQ(sum[at], at % stride < bias_at + c.n ? start[at] + product[at] : start[at]);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, GroupedMatmulTest, testing::ValuesIn(grouped_cases));

}  // namespace tidepool::test::grouped_matmul_test
