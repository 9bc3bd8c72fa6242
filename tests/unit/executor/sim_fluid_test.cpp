// Shares of resources, calculated by hand.
#include <gtest/gtest.h>

#include "executor/sim/fluid.h"

namespace tidepool::sim_fluid_test {

Flow flow(u64 id, std::initializer_list<Demand> demands, u32 priority = 0, double delay = 0) {
  Flow f{.id = id, .priority = priority, .delay = delay};
  for (const Demand& d : demands) f.need(d.resource, d.amount);
  return f;
}

TEST(Fluid, AFlowAloneIsAsFastAsItsScarcestResource) {
  Fluid fluid({10.0, 2.0});
  fluid.add(flow(1, {{0, 10.0}, {1, 6.0}}, 0, 0.5));
  EXPECT_EQ(fluid.finish_next(), 1u);
  EXPECT_DOUBLE_EQ(fluid.now(), 3.5);
  EXPECT_TRUE(fluid.idle());
}

TEST(Fluid, AFlowNeedsAResourceOnceForAllItDoes) {
  EXPECT_EQ(flow(1, {{0, 2.0}, {1, 1.0}, {0, 3.0}}).demands.size(), 2u);
  Fluid fluid({1.0, 1.0});
  fluid.add(flow(1, {{0, 2.0}, {1, 1.0}, {0, 3.0}}));
  fluid.finish_next();
  EXPECT_DOUBLE_EQ(fluid.now(), 5.0);
}

TEST(Fluid, TwoShareALinkAndTheSecondSpeedsUpOnceTheFirstIsDone) {
  Fluid fluid({10.0});
  fluid.add(flow(1, {{0, 10.0}}));
  fluid.add(flow(2, {{0, 20.0}}));
  EXPECT_EQ(fluid.finish_next(), 1u);
  EXPECT_DOUBLE_EQ(fluid.now(), 2.0);  // both at 5 per second
  EXPECT_EQ(fluid.finish_next(), 2u);
  EXPECT_DOUBLE_EQ(fluid.now(), 3.0);  // the last 10 at full speed
}

// Each flow has its own link; shared memory limits both, and a flow gets the memory that the other leaves
// free.
TEST(Fluid, ARateThatOneFlowCannotUseGoesToTheOther) {
  Fluid fluid({100.0, 12.0, 12.0});  // memory, link a, link b
  fluid.set_capacity(0, 16.0);
  fluid.add(flow(1, {{0, 12.0}, {1, 12.0}}));  // alone: 1 s
  fluid.add(flow(2, {{0, 4.0}, {2, 12.0}}));   // alone: 1 s, a third of the memory
  EXPECT_EQ(fluid.finish_next(), 1u);          // 12 + 4 just fit
  EXPECT_DOUBLE_EQ(fluid.now(), 1.0);
  EXPECT_EQ(fluid.finish_next(), 2u);
  EXPECT_DOUBLE_EQ(fluid.now(), 1.0);
}

TEST(Fluid, LowerPriorityGetsTheRest) {
  Fluid fluid({1.0});
  fluid.add(flow(1, {{0, 1.0}}, 1));
  fluid.add(flow(2, {{0, 1.0}}, 0));
  EXPECT_EQ(fluid.finish_next(), 2u);
  EXPECT_NEAR(fluid.now(), 1.0, 1e-5);
  EXPECT_EQ(fluid.finish_next(), 1u);
  EXPECT_NEAR(fluid.now(), 2.0, 1e-5);
}

TEST(Fluid, DelaysUseNothingAndTiesFallById) {
  Fluid fluid({1.0});
  fluid.add(flow(7, {}, 0, 1.0));
  fluid.add(flow(3, {}, 0, 1.0));
  fluid.add(flow(5, {{0, 0.5}}));
  EXPECT_EQ(fluid.finish_next(), 5u);
  EXPECT_DOUBLE_EQ(fluid.now(), 0.5);
  EXPECT_EQ(fluid.finish_next(), 3u);
  EXPECT_EQ(fluid.finish_next(), 7u);
  EXPECT_DOUBLE_EQ(fluid.now(), 1.0);
}

// For any flows, the time is at least the work of the busiest resource and at most the sum of the times that
// the flows take alone.
TEST(Fluid, NoResourceDoesMoreThanItCan) {
  for (u64 seed = 1; seed <= 50; ++seed) {
    u64 state = seed * 0x9e3779b97f4a7c15;
    const auto random = [&](u64 n) {
      state = state * 6364136223846793005 + 1442695040888963407;
      return (state >> 33) % n;
    };
    std::vector<double> capacity, work(4, 0.0);
    for (int r = 0; r < 4; ++r) capacity.push_back(1.0 + static_cast<double>(random(10)));
    Fluid fluid(capacity);
    double alone = 0;
    for (u64 id = 0; id < 12; ++id) {
      Flow f{.id = id, .priority = static_cast<u32>(random(2))};
      for (u32 r = 0; r < 4; ++r) {
        if (random(2) == 0) continue;
        const double amount = 1.0 + static_cast<double>(random(20));
        f.need(r, amount);
        work[r] += amount / capacity[r];
      }
      alone += fluid.alone(f);
      fluid.add(f);
    }
    while (!fluid.idle()) fluid.finish_next();
    for (double seconds : work) EXPECT_GE(fluid.now(), seconds * (1 - 1e-4)) << seed;
    EXPECT_LE(fluid.now(), alone * (1 + 1e-4)) << seed;
  }
}

}  // namespace tidepool::sim_fluid_test
