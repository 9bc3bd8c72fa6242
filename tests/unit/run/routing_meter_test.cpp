// Tests the sums that a run keeps of the routing of tokens to experts.
#include "run/outputs/routing_meter.h"

#include <gmock/gmock.h>

namespace tidepool::routing_meter_test {

using ::testing::ElementsAre;

// Layers 1 and 3 have 2 experts each, of which a token uses one; 6 tokens per step.
ModelGraph graph() {
  ModelGraph g;
  g.config.experts.count = 2, g.config.experts.chosen = 1;
  g.batch = {.sequences = 1, .tokens = 3};
  for (const u32 layer : {1u, 3u}) g.blocks.push_back({.kind = BlockKind::attention, .layer = layer});
  return g;
}

TEST(RoutingMeter, AddsUpStepsAndKeepsTheLastEight) {
  RoutingMeter meter(graph(), 4);
  for (i64 step = 1; step <= 10; ++step) {
    const std::vector<i64> tokens = {step <= 2 ? 6 : 3, step <= 2 ? 0 : 3, 2, 4};
    Metrics metrics;
    meter.add({.losses = {.balance = 1, .z = 2, .entropy = 3}, .tokens = tokens}, 6, metrics);
    EXPECT_EQ(metrics[Metric::router_z], 2);
    EXPECT_DOUBLE_EQ(metrics[Metric::expert_imbalance_most], step <= 2 ? 2 : 4.0 / 3);
    EXPECT_DOUBLE_EQ(metrics[Metric::expert_imbalance], ((step <= 2 ? 2 : 1) + 4.0 / 3) / 2);
  }
  RunReport report;
  meter.fill(report);
  ASSERT_TRUE(report.experts.has_value());
  EXPECT_THAT(report.experts->layers, ElementsAre(1, 3));
  EXPECT_THAT(report.experts->tokens, ElementsAre(36, 24, 20, 40));
  EXPECT_EQ(report.experts->last_steps, 8u);
  EXPECT_THAT(report.experts->last_tokens, ElementsAre(24, 24, 16, 32));
  EXPECT_EQ(report.experts->each_step.size(), 10u);
  EXPECT_EQ(report.experts->dropped, 0u);
}

TEST(RoutingMeter, CountsChoicesThatNoExpertComputed) {
  RoutingMeter meter(graph(), 4);
  const std::vector<i64> tokens = {2, 3, 6, 0};
  Metrics metrics;
  meter.add({.losses = {}, .tokens = tokens}, 6, metrics);
  RunReport report;
  meter.fill(report);
  EXPECT_EQ(report.experts->dropped, 1u);
}

TEST(RoutingMeter, PaddingIsNoDroppedChoice) {
  RoutingMeter meter(graph(), 4);
  const std::vector<i64> tokens = {2, 2, 4, 0};
  Metrics metrics;
  meter.add({.losses = {}, .tokens = tokens}, 4, metrics);
  RunReport report;
  meter.fill(report);
  EXPECT_EQ(report.experts->dropped, 0u);
}

TEST(RoutingMeter, TokensAreDueOncePerDoublingOfTheSteps) {
  RoutingMeter meter(graph(), 4);
  const std::vector<i64> tokens = {3, 3, 3, 3};
  std::vector<u64> due;
  for (u64 step = 1; step <= 40; ++step) {
    Metrics metrics;
    meter.add({.losses = {}, .tokens = tokens}, 6, metrics);
    if (step % 5 != 0) continue;  // a line every 5 steps
    if (const auto now = meter.due()) {
      due.push_back(now->steps);
      EXPECT_EQ(now->tokens[0], 3 * step);
    }
  }
  EXPECT_THAT(due, ElementsAre(5, 10, 20, 40));
}

TEST(RoutingMeter, AModelWithoutExpertsHasNothingToReport) {
  RoutingMeter meter(ModelGraph{}, 4);
  Metrics metrics;
  meter.add({}, 0, metrics);
  RunReport report;
  meter.fill(report);
  EXPECT_FALSE(metrics.has(Metric::router_balance));
  EXPECT_FALSE(meter.due().has_value());
  EXPECT_FALSE(report.experts.has_value());
}

}  // namespace tidepool::routing_meter_test
