// Budgets that are advised: what was planned is what a config can say.
#include <gtest/gtest.h>

#include "planner/advice.h"
#include "tests/unit/support_graph.h"

namespace tidepool {
namespace {

// From 64 GiB on a config says whole GiB: tried in MiB, what was told was not what had been planned.
TEST(LowerAgain, TriesWhatAConfigSays) {
  const ModelGraph graph = test::make_graph({.layers = 40, .layer_elements = u64{256} * mib});
  const Budgets had{Bytes{64 * gib}, Bytes{gib}, Bytes{0}};
  const AttemptOptions with{.chunk_elements = 64 * mib};
  PlanOptions larger{.budgets = had, .home = HomePolicy::host, .advise = false};
  larger.budgets.host = Bytes{1000 * gib};
  ASSERT_TRUE(attempt(graph, larger, with).fits);
  lower_again(graph, had, with, 1, larger);
  EXPECT_TRUE(attempt(graph, larger, with).fits);
  EXPECT_GT(larger.budgets.host, Bytes{64 * gib});
  EXPECT_LT(larger.budgets.host, Bytes{500 * gib});
  EXPECT_EQ(larger.budgets.host.value % gib, 0u);
}

TEST(RaiseALittle, WhatWasRaisedUpToTheMost) {
  const Budgets had{Bytes{mib}, Bytes{mib}, Bytes{0}}, most{Bytes{4 * mib}, Bytes{64 * mib}, Bytes{gib}};
  Budgets larger{Bytes{4 * mib}, Bytes{48 * mib}, Bytes{0}};
  ASSERT_TRUE(raise_a_little(had, most, larger));
  EXPECT_EQ(larger, (Budgets{Bytes{4 * mib}, Bytes{50 * mib}, Bytes{0}}));
  u32 rounds = 0;
  while (raise_a_little(had, most, larger)) ++rounds;
  EXPECT_LT(rounds, 10u);
  EXPECT_EQ(larger, (Budgets{Bytes{4 * mib}, Bytes{64 * mib}, Bytes{0}}));
}

}  // namespace
}  // namespace tidepool
