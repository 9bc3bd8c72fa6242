// Rows of a frozen table travel, and not the table: plans of random cases, and faults that the verifier
// finds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/bound/lower_bound.h"
#include "planner/planner.h"
#include "planner/verify/verify.h"
#include "tests/support/random_case.h"

namespace tidepool::lookup_test {

using ::testing::HasSubstr;

// Untied, with a frozen embedding of 32 columns; `rows`: of a micro-batch.
ModelGraph with_table(test::GraphShape shape, u64 table_rows, u32 rows) {
  shape.untied = true;
  ModelGraph graph = test::make_graph(shape);
  Window& table = graph.windows[0];
  table = test::make_window("wte", table_rows * 32);
  table.trainable = false;
  table.tensors[0].shape = {table_rows, 32};
  graph.batch.sequences = 1, graph.batch.tokens = rows;
  return graph;
}

PlanOptions looking_up(PlanOptions options) {
  options.lookup = LookupPolicy::on;
  options.advise = false;
  return options;
}

Plan small_plan(const ModelGraph& graph, Bytes host, Bytes disk) {
  auto plan = make_plan(graph, looking_up({.budgets = {Bytes{8 * mib}, host, disk},
                                           .micro_batches = 2,
                                           .chunk_bytes = Bytes{64 * kib}}));
  EXPECT_TRUE(plan) << plan.error().message;
  return *std::move(plan);
}

TEST(PlanLookup, IsPlannedInAnyCase) {
  u32 planned = 0;
  for (u32 seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    test::RandomCase c = test::random_case(seed, 1 + seed % 2);
    c.shape.expert_groups = 0;
    const ModelGraph graph = with_table(c.shape, 64 * (1 + seed % 40), 1 + seed % 90);
    const PlanOptions options = looking_up(c.options);
    const auto plan = make_plan(graph, options);  // verified
    if (!plan) {
      EXPECT_EQ(plan.error().kind, ErrorKind::does_not_fit) << plan.error().message;
      continue;
    }
    ++planned;
    EXPECT_EQ(plan->lookup.on(), options.home != HomePolicy::device);
    const auto least = lower_bound(*plan, graph), moved = link_bytes(*plan, SegmentKind::body);
    for (u32 l = 0; l < link_count; ++l)
      EXPECT_LE(least[l].value, moved[l].value) << name(static_cast<LinkKind>(l));
    for (u32 id = 0; id < plan->chunks.size() && plan->lookup.on(); ++id)
      if (plan->chunks[id].window == 0) {
        EXPECT_NE(plan->homes[id].tier, Tier::device) << id;
      }
  }
  EXPECT_GT(planned, 80u);
}

TEST(PlanLookup, HoldsATableThatIsLargerThanDeviceAndHost) {
  const ModelGraph graph = with_table({}, 512 * 1024, 64);  // 32 MiB
  const Plan plan = small_plan(graph, Bytes{4 * mib}, Bytes{256 * mib});
  EXPECT_EQ(plan.homes[0].tier, Tier::disk);
  const auto moved = link_bytes(plan, SegmentKind::body);
  // Two micro-batches of 64 rows, each row in a block of 4 KiB.
  EXPECT_LE(moved[static_cast<u32>(LinkKind::disk_read)].value, 2 * 64 * 4096 + 2 * mib);
  PlanOptions whole =
      looking_up({.budgets = {Bytes{8 * mib}, Bytes{4 * mib}, Bytes{256 * mib}}, .micro_batches = 2});
  whole.lookup = LookupPolicy::off;
  EXPECT_FALSE(make_plan(graph, whole));
  whole.lookup = LookupPolicy::automatic;
  EXPECT_TRUE(make_plan(graph, whole));
}

// A table below half of the device travels whole, unless nothing fits then.
TEST(PlanLookup, IsTheRuleWhereNothingElseFits) {
  const ModelGraph graph = with_table({}, 16 * 1024, 64);
  PlanOptions options = {.budgets = {Bytes{3 * mib}, Bytes{4 * mib}, Bytes{256 * mib}}, .micro_batches = 2};
  u32 whole = 0, rows = 0;
  for (u64 kib_of_device = 600; kib_of_device < 6'000; kib_of_device += 200) {
    options.budgets.device = Bytes{kib_of_device * kib};
    options.lookup = LookupPolicy::off;
    const auto without = make_plan(graph, options);
    options.lookup = LookupPolicy::automatic;
    const auto plan = make_plan(graph, options);
    if (!plan) continue;
    if (!without) {
      EXPECT_TRUE(plan->lookup.on()) << kib_of_device;
    }
    (plan->lookup.on() ? rows : whole) += 1;
    EXPECT_TRUE(check_fits(graph, options));
  }
  EXPECT_GT(whole, 0u);
  EXPECT_GT(rows, 0u);
}

TEST(PlanLookup, RowsWiderThanTheBufferTravelWithTheTable) {
  ModelGraph graph = with_table({}, 16 * 1024, 64);
  const PlanOptions options = looking_up({.budgets = {Bytes{8 * mib}, Bytes{64 * mib}, Bytes{0}}});
  EXPECT_TRUE(looks_up(graph, options));
  graph.windows[0].tensors[0].shape = {1, 512 * 1024 - 4096};
  EXPECT_TRUE(looks_up(graph, options)) << "1 MiB less two blocks is as wide as rows may be";
  graph.precision = Precision::fp32;
  EXPECT_FALSE(looks_up(graph, options));
}

TEST(PlanLookup, RestsInTheHostWithoutADisk) {
  const Plan plan = small_plan(with_table({}, 16 * 1024, 64), Bytes{16 * mib}, Bytes{0});
  EXPECT_EQ(plan.homes[0].tier, Tier::host);
  EXPECT_EQ(link_bytes(plan, SegmentKind::body)[static_cast<u32>(LinkKind::disk_read)].value, 0u);
}

template <class Change>
std::string fault(Change&& change) {
  const ModelGraph graph = with_table({}, 16 * 1024, 64);
  Plan plan = small_plan(graph, Bytes{4 * mib}, Bytes{64 * mib});
  change(plan);
  const auto verified = verify_plan(plan, graph);
  return verified ? "" : verified.error().message;
}

Op& first(Segment& segment, OpKind kind) { return *std::ranges::find(segment.ops, kind, &Op::kind); }

TEST(PlanLookup, FaultsAreFound) {
  const auto body = [](Plan& plan) -> Segment& { return plan.segments[static_cast<u32>(SegmentKind::body)]; };
  EXPECT_EQ(fault([](Plan&) {}), "");
  EXPECT_THAT(fault([&](Plan& plan) { first(body(plan), OpKind::lookup).micro_batch = 1; }),
              HasSubstr("finds the rows of another micro-batch"));
  EXPECT_THAT(fault([&](Plan& plan) { first(body(plan), OpKind::lookup).lane.kind = LaneKind::disk_read; }),
              HasSubstr("is no lookup of one micro-batch's rows"));
  EXPECT_THAT(fault([&](Plan& plan) { --plan.lookup.rows_most; }), HasSubstr("or are too few"));
  EXPECT_THAT(fault([&](Plan& plan) { plan.lookup.window = 1; }), HasSubstr("that blocks read whole"));
  EXPECT_THAT(fault([&](Plan& plan) {
                Segment& segment = body(plan);
                const Op& read = first(segment, OpKind::forward);
                segment.operands[read.operands_begin].first = ChunkId{0};
              }),
              HasSubstr("plan refused"));
}

}  // namespace tidepool::lookup_test
