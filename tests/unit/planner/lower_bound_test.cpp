// Compares the lower bound with a second derivation that shares no code: by weak duality, any non-negative
// price per byte and op bounds what memory can save, and the best prices reach the optimum.
#include "planner/bound/lower_bound.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>

#include "planner/planner.h"
#include "tests/support/support_graph.h"

namespace tidepool::lower_bound_test {

bool covers(const Saving& s, i32 p, i32 positions) {
  return (p >= s.begin && p <= s.end) || (s.begin < 0 && p >= s.begin + positions);
}

// RETURNS: the best of many subgradient steps on the dual: an upper bound on the saving, for the uncut
// circle.
double dual_bound(const std::vector<Saving>& savings, const std::vector<u64>& capacity) {
  const i32 n = static_cast<i32>(capacity.size());
  std::vector<double> price(capacity.size(), 0.0);
  double best = 1e300;
  for (int step = 1; step <= 3000; ++step) {
    std::vector<double> used(capacity.size(), 0.0);
    double value = 0;
    for (i32 p = 0; p < n; ++p) value += price[p] * static_cast<double>(capacity[p]);
    for (const Saving& s : savings) {
      double cost = 0;
      for (i32 p = 0; p < n; ++p)
        if (covers(s, p, n)) cost += price[p];
      const double gain = static_cast<double>(s.saved) - cost * static_cast<double>(s.bytes);
      if (gain <= 0) continue;
      value += gain;
      for (i32 p = 0; p < n; ++p)
        if (covers(s, p, n)) used[p] += static_cast<double>(s.bytes);
    }
    best = std::min(best, value);
    const double rate = 0.3 / (n * std::sqrt(step));
    for (i32 p = 0; p < n; ++p) {
      const double over =
          (used[p] - static_cast<double>(capacity[p])) / (1.0 + static_cast<double>(capacity[p]));
      price[p] = std::max(0.0, price[p] + rate * std::clamp(over, -1.0, 1.0));
    }
  }
  return best;
}

TEST(LowerBound, FlowAndDualAgreeOnRandomSavings) {
  std::mt19937 rng(7);
  for (int round = 0; round < 12; ++round) {
    const i32 positions = 8 + static_cast<i32>(rng() % 20);
    std::vector<u64> capacity(static_cast<u64>(positions));
    for (u64& c : capacity) c = 50 + rng() % 200;
    std::vector<Saving> savings;
    for (int i = 0; i < 25; ++i) {
      const i32 begin = static_cast<i32>(rng() % static_cast<u32>(positions));
      const i32 end = begin + static_cast<i32>(rng() % static_cast<u32>(positions - begin));
      const u64 bytes = 10 + rng() % 60;
      savings.push_back({begin, end, bytes, bytes * (1 + rng() % 2)});
    }
    const double flow = static_cast<double>(most_saved(savings, capacity));
    const double dual = dual_bound(savings, capacity);
    EXPECT_LE(flow, dual * 1.02 + 25) << round;  // never above the optimum by more than rounding ...
    EXPECT_GE(flow, dual * 0.90) << round;       // ... nor far below the bound of the prices
  }
}

// On one link alone the prices find what the flow finds.
TEST(WeighedBound, AgreesWithTheFlowOnOneLink) {
  std::mt19937 rng(11);
  for (int round = 0; round < 12; ++round) {
    const i32 positions = 8 + static_cast<i32>(rng() % 20);
    std::vector<u64> capacity(static_cast<u64>(positions));
    for (u64& c : capacity) c = 50'000 + rng() % 200'000;
    std::vector<Saving> savings;
    HeldContents contents;
    for (int i = 0; i < 25; ++i) {
      const i32 begin = static_cast<i32>(rng() % static_cast<u32>(positions));
      const i32 end = begin + static_cast<i32>(rng() % static_cast<u32>(positions - begin));
      const u64 bytes = 10'000 + rng() % 60'000;
      savings.push_back({begin, end, bytes, bytes});
      contents.others.push_back({.begin = begin, .end = end, .bytes = bytes, .links = bytes});
    }
    const std::vector<u64> none(capacity.size(), 0);
    const u64 flow = most_saved(savings, capacity);
    const u64 prices = most_saved_weighed(contents, capacity, none, flow / 2);
    EXPECT_GE(static_cast<double>(prices), 0.999 * static_cast<double>(flow)) << round;
    EXPECT_LE(static_cast<double>(prices), 1.02 * static_cast<double>(flow)) << round;
  }
}

// A window of 100 bytes of state and 20 of parameters, which are used twice: worth 4 for each byte of the
// disk, 1 for each of a link.
TEST(WeighedBound, TakesTheBestPlaceOfAWindow) {
  const HeldContents contents{
      .windows = {{.state = {.begin = 0, .end = 9, .bytes = 100, .disk = 200},
                   .gradient = {.begin = 8, .end = 9, .bytes = 20, .links = 20, .disk = 40},
                   .params = {{.begin = 2, .end = 6, .bytes = 20, .links = 20, .disk = 20}},
                   .links_at_home = 20}},
      .others = {}};
  const auto saved = [&](u64 of_device, u64 of_host) {
    return most_saved_weighed(contents, std::vector<u64>(10, of_device), std::vector<u64>(10, of_host), 0);
  };
  const auto about = [](u64 value) {
    return testing::AllOf(testing::Ge(value), testing::Le(value + value / 50 + 1));
  };
  EXPECT_THAT(saved(0, 0), about(0));
  EXPECT_THAT(saved(0, 1000), about(4 * (200 + 20 + 40)));
  EXPECT_THAT(saved(20, 1000), about(4 * (200 + 20 + 40) + 20));  // parameters stay between their uses
  EXPECT_THAT(saved(140, 0), about(4 * (200 + 20 + 40) + 60));    // at home, with its gradient
  EXPECT_THAT(saved(0, 100), about(4 * (160 + 20 + 40)));  // a fifth of the state leaves its room to them
}

TEST(WeighedBound, HoldsBetweenStreamingAndResidence) {
  const ModelGraph graph = test::make_graph({.layers = 12});
  for (u64 host : {600ull, 1000ull, 2000ull, 4000ull, 100'000ull})
    for (u64 device : {600ull, 1500ull, 3000ull, 100'000ull})
      for (u32 devices : {1u, 2u}) {
        const auto plan = make_plan(graph, {.budgets = {Bytes{device * kib}, Bytes{host * kib}, Bytes{gib}},
                                            .micro_batches = 2 * devices,
                                            .devices = devices});
        ASSERT_TRUE(plan) << plan.error().message;
        EXPECT_GE(weighed(link_bytes(*plan, SegmentKind::body)), weighed_lower_bound(*plan, graph).value())
            << host << " " << device << " " << devices;
      }
}

TEST(LowerBound, FittingStateMovesNothingAndStreamingMovesAtLeastTheBound) {
  const ModelGraph graph = test::make_graph({.layers = 12});
  for (u64 host : {600ull, 1000ull, 4000ull, 100'000ull})
    for (u64 device : {600ull, 1500ull, 100'000ull})
      for (bool clipping : {true, false}) {
        const auto plan = make_plan(graph, {.budgets = {Bytes{device * kib}, Bytes{host * kib}, Bytes{gib}},
                                            .micro_batches = 2,
                                            .clipping = clipping});
        ASSERT_TRUE(plan) << plan.error().message;
        const auto moved = link_bytes(*plan, SegmentKind::body), bound = lower_bound(*plan, graph);
        for (u32 l = 0; l < link_count; ++l)
          EXPECT_GE(moved[l].value, bound[l].value)
              << name(static_cast<LinkKind>(l)) << " " << host << " " << device;
        if (device == 100'000) {
          EXPECT_EQ(moved[2].value + moved[3].value, 0u);
        }
      }
}

// Above 1024 activations neighbours count as one, which may only lower the bound.
TEST(LowerBound, HoldsForManyMicroBatches) {
  const ModelGraph graph = test::make_graph({.layers = 12});
  for (const u32 sweeps : {1u, 2u}) {
    const auto plan = make_plan(graph, {.budgets = {Bytes{6000 * kib}, Bytes{4000 * kib}, Bytes{gib}},
                                        .micro_batches = 100,
                                        .sweeps = sweeps});
    ASSERT_TRUE(plan) << plan.error().message;
    const auto moved = link_bytes(*plan, SegmentKind::body), bound = lower_bound(*plan, graph);
    for (u32 l = 0; l < link_count; ++l) {
      EXPECT_GE(moved[l].value, bound[l].value) << name(static_cast<LinkKind>(l)) << " " << sweeps;
      if (l < 2) {
        EXPECT_GT(2 * bound[l].value, moved[l].value) << "a bound that says little";
      }
    }
  }
}

// One window is larger than all others together, and so is the room that is declared for its streaming.
TEST(LowerBound, HoldsBesideALargeTable) {
  const ModelGraph graph = test::make_graph({.layers = 6, .embedding_elements = 400 * 2048, .untied = true});
  u32 planned = 0;
  for (u64 host = 1'000; host <= 13'000; host += 800)
    for (u64 device : {6'000ull, 10'000ull}) {
      const auto plan = make_plan(graph, {.budgets = {Bytes{device * kib}, Bytes{host * kib}, Bytes{gib}},
                                          .micro_batches = 2,
                                          .advise = false});
      if (!plan) continue;
      ++planned;
      const auto moved = link_bytes(*plan, SegmentKind::body), bound = lower_bound(*plan, graph);
      for (u32 l = 0; l < link_count; ++l)
        EXPECT_GE(moved[l].value, bound[l].value)
            << name(static_cast<LinkKind>(l)) << " " << host << " " << device;
      EXPECT_GE(weighed(moved), weighed_lower_bound(*plan, graph).value()) << host << " " << device;
    }
  EXPECT_GT(planned, 20u);
}

// A budget enlarged by a reserve improves neither plan nor bound.
TEST(LowerBound, AReserveIsNoRoom) {
  const ModelGraph graph = test::make_graph({.layers = 12});
  const Budgets bare = {Bytes{1500 * kib}, Bytes{1000 * kib}, Bytes{gib}};
  const Bytes reserve{8000 * kib};
  const auto without = make_plan(graph, {.budgets = bare, .micro_batches = 2});
  const auto with = make_plan(graph, {.budgets = {bare.device + reserve, bare.host + reserve, bare.disk},
                                      .micro_batches = 2,
                                      .device_reserved = reserve,
                                      .host_reserved = reserve});
  ASSERT_TRUE(without && with);
  EXPECT_EQ(link_bytes(*with, SegmentKind::body), link_bytes(*without, SegmentKind::body));
  EXPECT_EQ(lower_bound(*with, graph), lower_bound(*without, graph));
  EXPECT_GT(lower_bound(*with, graph)[0].value, 0u);
}

TEST(LowerBound, HoldsForSeveralDevices) {
  const ModelGraph graph = test::make_graph({.layers = 12});
  for (u64 host : {800ull, 2000ull, 100'000ull})
    for (u64 device : {700ull, 1500ull, 100'000ull})
      for (u32 devices : {2u, 3u, 4u}) {
        const auto plan = make_plan(graph, {.budgets = {Bytes{device * kib}, Bytes{host * kib}, Bytes{gib}},
                                            .micro_batches = 2 * devices,
                                            .devices = devices});
        ASSERT_TRUE(plan) << plan.error().message;
        const auto moved = link_bytes(*plan, SegmentKind::body), bound = lower_bound(*plan, graph);
        for (u32 l = 0; l < link_count; ++l)
          EXPECT_GE(moved[l].value, bound[l].value)
              << name(static_cast<LinkKind>(l)) << " " << host << " " << device << " " << devices;
        // If everything fits on the devices together, only batches move to and from the host.
        if (device == 100'000) {
          EXPECT_EQ(moved[1].value + moved[2].value + moved[3].value, 0u);
        }
      }
}

}  // namespace tidepool::lower_bound_test
