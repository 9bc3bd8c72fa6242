// Checks what CostRecorder counts for experts: expected rows, and every expert's weights once.
#include "kernels/experts/experts_cost.h"

#include <gtest/gtest.h>

#include "model/cost_recorder.h"

namespace tidepool::test::experts_cost_test {

TEST(ExpertsCost, CountsExpectedRowsAndEachExpertsWeightsOnce) {
  // 100 tokens choose 2 of 8 experts; a range has 4 of them.
  const u32 expected = static_cast<u32>(routed_rows_expected(100, 2, 4, 8));
  EXPECT_EQ(expected, 100u);
  EXPECT_EQ(routed_rows_max(100, 2, 4), 200u);
  EXPECT_EQ(routed_rows_max(100, 2, 1), 100u);
  CostRecorder recorder;
  recorder.grouped_matmul({.experts = 4,
                           .rows_max = 200,
                           .n = 6,
                           .k = 10,
                           .expected_rows = expected,
                           .weight = {nullptr, Precision::bf16}});
  recorder.glu({.rows = 200, .columns = 3, .expected_rows = expected});
  recorder.glu({.rows = 200, .columns = 3});
  const auto costs = recorder.take();
  ASSERT_EQ(costs.size(), 3u);
  EXPECT_EQ(costs[0].product_flops, 2u * 100 * 6 * 10);
  EXPECT_EQ(costs[0].bytes, 2u * 4 * 6 * 10);
  EXPECT_EQ(costs[0].m, 100u);
  EXPECT_EQ(costs[0].groups, 4u);
  EXPECT_EQ(2 * costs[1].elements, costs[2].elements);
}

TEST(ExpertsCost, CountsABiasOfTheGradientAsAPassOfItsOwn) {
  CostRecorder recorder;
  float bias = 0;
  GroupedWeightGradient op = {.experts = 2, .n = 3, .k = 5, .expected_rows = 7};
  recorder.grouped_weight_gradient(op);
  EXPECT_EQ(recorder.take(), (std::vector{grouped_weight_gradient_cost(7, 3, 5, 2)}));
  op.dbias = &bias;
  recorder.grouped_weight_gradient(op);
  EXPECT_EQ(recorder.take().size(), 2u);
}

}  // namespace tidepool::test::experts_cost_test
