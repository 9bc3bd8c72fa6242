// State at home on devices because host and disk have no room; the fit is decided without planning.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "planner/planner.h"
#include "tests/support/random_case.h"

namespace tidepool::homes_test {

struct Tight {
  ModelGraph graph = test::make_graph({.layers = 12, .layer_elements = 2048 * 64});
  PlanOptions options{
      .budgets = {Bytes{4 * mib}, Bytes{}, Bytes{0}}, .micro_batches = 4, .devices = 4, .advise = false};

  bool fits(Bytes host) {
    options.budgets.host = host;
    return check_fits(graph, options).has_value();
  }
  // RETURNS: the smallest host budget, to 4 KiB.
  Bytes least_host() {
    u64 fails = 0, does = 64 * kib;  // pages
    while (fails + 1 < does) {
      const u64 middle = (fails + does) / 2;
      (fits(Bytes{middle * frame_alignment}) ? does : fails) = middle;
    }
    return Bytes{does * frame_alignment};
  }
  // RETURNS: bytes of parameters, remainders and moments, and of waiting gradients, once each.
  Bytes waits() const {
    u64 elements = 0;
    for (const Window& w : graph.windows) elements += w.elements;
    return Bytes{14 * elements};
  }
};

TEST(PlannerHomes, DevicesTakeWhatHostAndDiskHaveNoRoomFor) {
  Tight tight;
  tight.options.budgets.host = tight.least_host();
  const Result<Plan> plan = make_plan(tight.graph, tight.options);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_TRUE(std::any_of(plan->homes.begin(), plan->homes.end(),
                          [](const Frame& f) { return f.bytes.value > 0 && f.tier == Tier::device; }));
  // All of each device's 4 MiB is useful, except a window with its gradients, and a layer's uncut state:
  // window 256 KiB, accumulator 512, sums 64 + 32, workspace, activations 13 x 32, a layer's shard 448.
  const Bytes all = tight.options.budgets.device * tight.options.devices + tight.options.budgets.host;
  EXPECT_LT((all - tight.waits()).value, tight.options.devices * 2 * mib);
}

TEST(PlannerHomes, MoreStateRestsOnDevicesOnlyIfNecessary) {
  Tight tight;
  tight.options.budgets.host = Bytes{64 * mib};
  PlanOptions disk = tight.options;
  disk.budgets = {Bytes{4 * mib}, tight.least_host() - Bytes{mib}, Bytes{gib}};
  const Result<Plan> plan = make_plan(tight.graph, disk);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_GT(plan->tiers[static_cast<u32>(Tier::disk)].planned_peak.value, 0u);
}

TEST(PlannerHomes, EarlyBlocksRestOnTheDevice) {
  Tight tight;
  tight.options.devices = 1;
  tight.options.budgets = {Bytes{16 * mib}, Bytes{64 * mib}, Bytes{0}};
  tight.options.home = HomePolicy::host;
  for (const u32 early : {0u, 1u, 3u, 100u}) {
    tight.options.early_blocks = early;
    if (early > 20) tight.options.budgets.device = Bytes{256 * mib};
    const Result<Plan> plan = make_plan(tight.graph, tight.options);
    ASSERT_TRUE(plan) << plan.error().message;
    std::set<u32> expected, found;
    for (u32 b = 0; b < std::min<size_t>(early, tight.graph.blocks.size()); ++b)
      expected.insert(tight.graph.blocks[b].windows.begin(), tight.graph.blocks[b].windows.end());
    for (u32 id = 0; id < plan->homes.size(); ++id)
      if (plan->state_slots.is_optimizer_slot(plan->chunks[id].kind) && plan->homes[id].tier == Tier::device)
        found.insert(plan->chunks[id].window);
    EXPECT_EQ(found, expected) << early;
  }
}

TEST(PlannerHomes, FittingIsFoundWithoutPlanning) {
  u32 fitted = 0;
  for (u32 seed = 0; seed < 60; ++seed) {
    test::RandomCase c = test::random_case(seed, 1 + seed % 3);
    c.options.advise = false;
    if (seed % 2 == 0) c.options.budgets.disk = Bytes{0};
    const ModelGraph graph = test::make_graph(c.shape);
    const bool fits = check_fits(graph, c.options).has_value();
    EXPECT_EQ(fits, make_plan(graph, c.options).has_value()) << seed;
    fitted += fits;
  }
  EXPECT_GT(fitted, 8u);
  EXPECT_LT(fitted, 52u);
}

}  // namespace tidepool::homes_test
