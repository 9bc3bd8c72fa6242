// Plans with layers over devices: what each link carries, and faults that the verifier must find.
#include <gtest/gtest.h>

#include <algorithm>

#include "planner/bound/lower_bound.h"
#include "planner/planner.h"
#include "planner/verify/verify.h"
#include "planner/verify/verify_nodes.h"
#include "tests/support/support_graph.h"

namespace tidepool::layers_test {

// The head is not tied, so every window belongs to one block.
ModelGraph graph_of(Precision precision = Precision::bf16, bool untied = true, u32 groups = 0) {
  test::GraphShape shape{.layers = 6,
                         .layer_elements = 40 * 2048,
                         .embedding_elements = 40 * 2048,
                         .boundary_bytes = 8 * kib,
                         .workspace_bytes = 16 * kib,
                         .precision = precision};
  shape.untied = untied;
  shape.expert_groups = groups;
  shape.group_elements = 20 * 2048;
  return test::make_graph(shape);
}

PlanOptions options_of(u32 devices, Parallel parallel, Bytes device = Bytes{1200 * kib}) {
  return {.budgets = {device, Bytes{64 * mib}, Bytes{gib}},
          .micro_batches = 8,
          .devices = devices,
          .parallel = parallel,
          .home = HomePolicy::host,
          .chunk_bytes = Bytes{64 * kib}};
}

Plan plan_of(const ModelGraph& graph, const PlanOptions& options) {
  Result<Plan> plan = make_plan(graph, options);
  EXPECT_TRUE(plan) << plan.error().message;
  return std::move(plan).value();
}

// Bytes of a kind that a device gets in a body, from the host or from other devices.
u64 received(const Plan& plan, Kind kind, u32 device) {
  u64 sum = 0;
  const Segment& body = plan.segment(SegmentKind::body);
  for (const Op& op : body.ops) {
    const auto operands = body.operands_of(op);
    if (plan.chunk(operands[0].first).kind != kind) continue;
    const bool up = op.lane.kind == LaneKind::h2d && op.lane.device == device;
    for (const Operand& o : operands)
      if (o.access == Access::write && o.frame.device == device && (up || op.kind == OpKind::all_gather))
        sum += o.frame.bytes.value;
  }
  return sum;
}

u64 copied(const Plan& plan, Kind kind, LaneKind lane) {
  u64 sum = 0;
  const Segment& body = plan.segment(SegmentKind::body);
  for (const Op& op : body.ops)
    if (op.kind == OpKind::copy && op.lane.kind == lane)
      if (const Operand& o = body.operands_of(op)[0]; plan.chunk(o.first).kind == kind)
        sum += o.frame.bytes.value;
  return sum;
}

TEST(LayersOverDevices, BringEachDeviceItsShareOfTheParameters) {
  const ModelGraph graph = graph_of();  // 8 blocks
  for (const u32 devices : {2u, 4u}) {
    const Plan data = plan_of(graph, options_of(devices, Parallel::data)),
               layers = plan_of(graph, options_of(devices, Parallel::layers));
    const u64 of_each = received(data, Kind::param, 0);
    u64 of_all = 0;
    for (u32 device = 0; device < devices; ++device) {
      const u64 share = received(layers, Kind::param, device);
      EXPECT_GT(share, 0u);
      EXPECT_LE(share * devices * 100, of_each * 105) << device << " of " << devices;
      of_all += share;
    }
    EXPECT_LE(of_all, of_each);  // less, if more stays in the devices' memory together
    EXPECT_EQ(comm_bytes(layers, SegmentKind::body), Bytes{0});
    EXPECT_EQ(copied(layers, Kind::grad, LaneKind::d2h), copied(data, Kind::grad, LaneKind::d2h));
  }
}

// Each of the 7 blocks before the head hands on its output, and each block but the embedding a gradient.
TEST(LayersOverDevices, PassEachStreamThroughTheHostOnce) {
  const ModelGraph graph = graph_of();
  PlanOptions options = options_of(2, Parallel::layers, Bytes{64 * mib});
  options.home = HomePolicy::automatic;  // all windows rest on their device
  const Plan plan = plan_of(graph, options);
  const u64 micro_batches = plan.micro_batches, stream = 8 * kib;
  for (const LaneKind lane : {LaneKind::d2h, LaneKind::h2d}) {
    EXPECT_EQ(copied(plan, Kind::activation, lane), 7 * micro_batches * stream) << name(lane);
    EXPECT_EQ(copied(plan, Kind::activation_grad, lane), 7 * micro_batches * stream) << name(lane);
  }
  const auto moved = link_bytes(plan, SegmentKind::body), least = lower_bound(plan, graph);
  const u64 batches =
      micro_batches * 2 * frame_alignment;  // to embedding and head; counted with what is saved
  EXPECT_EQ(moved[static_cast<u32>(LinkKind::h2d)].value,
            least[static_cast<u32>(LinkKind::h2d)].value + batches);
  EXPECT_EQ(moved[static_cast<u32>(LinkKind::d2h)], least[static_cast<u32>(LinkKind::d2h)]);
}

// Content that many devices read moves down once.
TEST(LayersOverDevices, HandWhatExpertsReadDownOnce) {
  const ModelGraph graph = graph_of(Precision::bf16, true, 5);
  const Plan plan = plan_of(graph, options_of(3, Parallel::layers, Bytes{64 * mib}));
  u64 normed = 0;
  for (const Stream& s : graph.streams)
    if (s.kind == Kind::normed) normed += round_up(s.bytes.value, frame_alignment) * plan.micro_batches;
  EXPECT_GT(normed, 0u);
  EXPECT_EQ(copied(plan, Kind::normed, LaneKind::d2h), normed);
  EXPECT_GT(copied(plan, Kind::normed, LaneKind::h2d), normed);
}

// The uses of a tied window are on two devices; their sums meet on the first.
TEST(LayersOverDevices, SumATiedWindowOnOneDevice) {
  const ModelGraph graph = graph_of(Precision::fp32, false);
  const Plan plan = plan_of(graph, options_of(2, Parallel::layers));
  const Segment& body = plan.segment(SegmentKind::body);
  u32 gradients = 0;
  for (const Op& op : body.ops) {
    if (op.kind != OpKind::gradient) continue;
    u32 uses = 0;
    for (const Operand& o : body.operands_of(op)) uses += plan.chunk(o.first).kind == Kind::grad_accum;
    if (uses < 2) continue;
    ++gradients;
    EXPECT_EQ(op.lane.device, 0);
  }
  EXPECT_EQ(gradients, 1u);
}

TEST(LayersOverDevices, OfSeveralNodesFitEachOther) {
  for (const bool untied : {true, false})
    for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
      const ModelGraph graph = graph_of(precision, untied);
      PlanOptions options = options_of(2, Parallel::layers);
      options.nodes = 3, options.micro_batches = 6;
      options.budgets.device = Bytes{8 * mib};
      std::vector<Plan> plans;
      for (options.node = 0; options.node < options.nodes; ++options.node)
        plans.push_back(plan_of(graph, options));
      const Result<void> verified = verify_nodes(plans, graph);
      EXPECT_TRUE(verified) << verified.error().message;
    }
}

// ---- faults

Segment& body_of(Plan& plan) { return plan.segments[static_cast<u32>(SegmentKind::body)]; }

void expect_refused(const Plan& plan, const ModelGraph& graph, const char* words) {
  const Result<void> verified = verify_plan(plan, graph);
  ASSERT_FALSE(verified) << words;
  EXPECT_NE(verified.error().message.find(words), std::string::npos) << verified.error().message;
}

TEST(LayersOverDevicesCanary, ABlockOnAnotherDeviceIsRefused) {
  const ModelGraph graph = graph_of();
  Plan plan = plan_of(graph, options_of(2, Parallel::layers));
  for (Op& op : body_of(plan).ops)
    if (op.kind == OpKind::forward && op.block == 1) op.lane.device = 0;
  expect_refused(plan, graph, "block 1");
}

// The first stream that a device takes before the other has handed it down.
TEST(LayersOverDevicesCanary, AStreamThatIsNotWaitedForIsRefused) {
  const ModelGraph graph = graph_of();
  Plan plan = plan_of(graph, options_of(2, Parallel::layers));
  Segment& body = body_of(plan);
  for (Op& op : body.ops) {
    const bool takes =
        op.lane.kind == LaneKind::h2d && plan.chunk(body.operands_of(op)[0].first).kind == Kind::activation;
    if (!takes) continue;
    for (u32 d = 0; d < op.deps_count; ++d)
      if (OpId& dep = body.deps[op.deps_begin + d]; body.ops[index(dep)].lane.kind == LaneKind::d2h) {
        dep = body.deps[op.deps_begin + op.deps_count - 1];
        --op.deps_count;
        return expect_refused(plan, graph, "nothing orders them");
      }
  }
  FAIL() << "no copy waits for another device";
}

TEST(LayersOverDevicesCanary, AStreamOfAnotherMicroBatchIsRefused) {
  const ModelGraph graph = graph_of();
  Plan plan = plan_of(graph, options_of(2, Parallel::layers));
  Segment& body = body_of(plan);
  u32 changed = 0;
  for (Op& op : body.ops)
    if (op.kind == OpKind::forward && op.block == 2 && op.micro_batch < 2) op.micro_batch ^= 1, ++changed;
  ASSERT_EQ(changed, 2u);
  expect_refused(plan, graph, "micro-batch");
}

}  // namespace tidepool::layers_test
