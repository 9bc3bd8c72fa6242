// The verifier refuses plans with one injected fault.
#include "planner/verify/verify.h"

#include <gtest/gtest.h>

#include <map>

#include "planner/planner.h"
#include "tests/support/support_graph.h"

namespace tidepool::verify_test {

const ModelGraph& graph() {
  static const ModelGraph g = test::make_graph({});
  return g;
}

Plan streaming_plan() {
  auto plan = make_plan(graph(), {.budgets = {Bytes{700 * kib}, Bytes{500 * kib}, Bytes{gib}},
                                  .micro_batches = 2,
                                  .chunk_bytes = Bytes{16 * kib}});
  EXPECT_TRUE(plan) << plan.error().message;
  return std::move(plan).value();
}

Segment& body(Plan& plan) { return plan.segments[static_cast<u32>(SegmentKind::body)]; }

// Removes edge number `edge` of op `op` of the body.
void remove_edge(Plan& plan, u32 op, u32 edge) {
  Segment& segment = body(plan);
  segment.deps.erase(segment.deps.begin() + segment.ops[op].deps_begin + edge);
  --segment.ops[op].deps_count;
  for (u32 i = 0; i < segment.ops.size(); ++i)
    if (i != op && segment.ops[i].deps_begin > segment.ops[op].deps_begin) --segment.ops[i].deps_begin;
}

TEST(VerifyPlan, AcceptsThePlannersPlan) { EXPECT_TRUE(verify_plan(streaming_plan(), graph())); }

TEST(VerifyPlan, CanaryWithOneMissingEdgeIsRefusedAndBothOpsAreNamed) {
  Plan plan = streaming_plan();
  const Segment& segment = body(plan);
  u32 forward = 0;  // the first forward that waits for a copy
  while (segment.ops[forward].kind != OpKind::forward || segment.ops[forward].deps_count == 0) ++forward;
  u32 edge = 0;
  while (segment.ops[index(segment.deps_of(segment.ops[forward])[edge])].lane.kind != LaneKind::h2d) ++edge;
  remove_edge(plan, forward, edge);
  const Result<void> verified = verify_plan(plan, graph());
  ASSERT_FALSE(verified);
  EXPECT_NE(verified.error().message.find("copy on h2d"), std::string::npos) << verified.error().message;
  EXPECT_NE(verified.error().message.find("forward on compute"), std::string::npos)
      << verified.error().message;
}

// ---- several devices

Plan plan_of_devices(HomePolicy home) {
  auto plan = make_plan(graph(), {.budgets = {Bytes{900 * kib}, Bytes{900 * kib}, Bytes{gib}},
                                  .micro_batches = 2,
                                  .devices = 2,
                                  .home = home,
                                  .chunk_bytes = Bytes{16 * kib}});
  EXPECT_TRUE(plan) << plan.error().message;
  return std::move(plan).value();
}

u32 find_op(const Segment& segment, OpKind kind) {
  u32 i = 0;
  while (i < segment.ops.size() && segment.ops[i].kind != kind) ++i;
  EXPECT_LT(i, segment.ops.size()) << name(kind);
  return i;
}

TEST(VerifyPlan, CanaryOfSeveralDevicesNamesTheGatherAndTheCopyItDoesNotWaitFor) {
  Plan plan = plan_of_devices(HomePolicy::host);
  const Segment& segment = body(plan);
  const u32 gather = find_op(segment, OpKind::all_gather);
  u32 edge = 0;
  while (segment.ops[index(segment.deps_of(segment.ops[gather])[edge])].lane.kind != LaneKind::h2d) ++edge;
  remove_edge(plan, gather, edge);
  const Result<void> verified = verify_plan(plan, graph());
  ASSERT_FALSE(verified);
  EXPECT_NE(verified.error().message.find("copy on h2d of device"), std::string::npos)
      << verified.error().message;
  EXPECT_NE(verified.error().message.find("all_gather on comm"), std::string::npos)
      << verified.error().message;
}

TEST(VerifyPlan, RefusesCollectivesThatAreNotWhole) {
  for (const HomePolicy home : {HomePolicy::host, HomePolicy::device}) {
    const Plan good = plan_of_devices(home);
    const auto refused = [&](OpKind kind, auto&& spoil) {
      Plan plan = good;
      Segment& segment = body(plan);
      const Op& op = segment.ops[find_op(segment, kind)];
      spoil(plan, std::span(segment.operands).subspan(op.operands_begin, op.operands_count));
      return !verify_plan(plan, graph());
    };
    using Operands = std::span<Operand>;
    // Passes on another version than it reads, or a chunk that it does not read; sums one device twice.
    EXPECT_TRUE(refused(OpKind::all_gather, [](Plan&, Operands o) { o.back().version += 1; }));
    EXPECT_TRUE(refused(OpKind::all_gather, [](Plan&, Operands o) { o[0].access = Access::write; }));
    EXPECT_TRUE(refused(OpKind::reduce_scatter, [](Plan&, Operands o) { o[1] = o[0]; }));
    EXPECT_TRUE(refused(OpKind::reduce_scatter, [](Plan&, Operands o) { std::swap(o[0], o[1]); }));
    EXPECT_TRUE(refused(OpKind::reduce_scatter, [](Plan&, Operands o) { o[0].frame.device = 7; }));
    // A device's own op uses another device's memory.
    EXPECT_TRUE(refused(OpKind::forward, [](Plan&, Operands o) { o.back().frame.device = 1; }));
    EXPECT_TRUE(refused(OpKind::forward, [](Plan& p, Operands) { p.devices = 1; }));
  }
}

// RETURNS: true if `to` follows `from` in the body without that edge: by other edges, or on an ordered lane.
bool implied(const Segment& segment, u32 from, u32 to) {
  std::vector<bool> reached(segment.ops.size(), false);
  reached[from] = true;
  std::map<LaneId, bool> on_lane;  // on each lane, an earlier op is reached
  for (u32 i = from; i <= to; ++i) {
    const Op& op = segment.ops[i];
    for (OpId dep : segment.deps_of(op))
      if (!(i == to && index(dep) == from)) reached[i] = reached[i] || reached[index(dep)];
    if (is_ordered(op.lane.kind)) {
      reached[i] = reached[i] || on_lane[op.lane];
      on_lane[op.lane] = reached[i];
    }
  }
  return reached[to];
}

TEST(VerifyPlan, NoticesEveryMissingEdgeThatOthersDoNotImply) {
  const Plan plan = streaming_plan();
  const Segment& segment = plan.segment(SegmentKind::body);
  u32 needed = 0;
  for (u32 op = 0; op < segment.ops.size(); ++op)
    for (u32 e = 0; e < segment.ops[op].deps_count; ++e) {
      if (implied(segment, index(segment.deps_of(segment.ops[op])[e]), op)) continue;
      Plan broken = plan;
      remove_edge(broken, op, e);
      ++needed;
      EXPECT_FALSE(verify_plan(broken, graph())) << "op " << op << " edge " << e;
    }
  EXPECT_GT(needed, 50u);
}

TEST(VerifyPlan, NoticesEveryMissingEdgeBetweenBodies) {
  const Plan plan = streaming_plan();
  u32 noticed = 0, edges = 0;
  for (u32 l = 0; l < plan.links.size(); ++l)
    for (u32 e = 0; e < plan.links[l].edges.size(); ++e) {
      Plan broken = plan;
      broken.links[l].edges.erase(broken.links[l].edges.begin() + e);
      ++edges;
      noticed += verify_plan(broken, graph()) ? 0 : 1;
    }
  EXPECT_GT(edges, 10u);
  // most edges are implied by others inside a body
  EXPECT_GT(noticed, edges / 5) << noticed << " of " << edges;
}

// A forward that runs before its update and reads the old content: consistent, but stale.
TEST(VerifyPlan, RefusesAStaleParameter) {
  Plan plan = streaming_plan();
  for (Op& op : body(plan).ops)
    if (op.kind == OpKind::forward)
      for (u32 i = 0; i < op.operands_count; ++i) {
        Operand& o = body(plan).operands[op.operands_begin + i];
        if (plan.chunk(o.first).kind == Kind::param) o.version = 0;
      }
  const auto verified = verify_plan(plan, graph());
  ASSERT_FALSE(verified);
  EXPECT_NE(verified.error().message.find("at version 0, not 1"), std::string::npos)
      << verified.error().message;
}

TEST(VerifyPlan, RefusesAMicroBatchThatRunsTwice) {
  Plan plan = streaming_plan();
  for (Op& op : body(plan).ops)
    if (op.kind == OpKind::forward) op.micro_batch = 0;
  EXPECT_FALSE(verify_plan(plan, graph()));
}

// Between segments at rest only homes hold content.
TEST(VerifyPlan, RefusesAnEvaluationThatReadsWhatADrainLeft) {
  Plan plan = streaming_plan();
  Segment& evaluation = plan.segments[static_cast<u32>(SegmentKind::evaluation)];
  for (Op& op : evaluation.ops)
    if (op.kind == OpKind::read) {  // removes a read from disk, as if its content were there already
      op.kind = OpKind::norm;
      op.lane = {host_device, LaneKind::host};
      op.operands_count = 0;
      break;
    }
  EXPECT_FALSE(verify_plan(plan, graph()));
}

TEST(VerifyPlan, RefusesAWrongFrameVersionBudgetOrCount) {
  const auto refused = [](auto&& spoil) {
    Plan plan = streaming_plan();
    spoil(plan);
    return !verify_plan(plan, graph());
  };
  const auto first = [](Plan& plan, OpKind kind) -> Op& {
    for (Op& op : body(plan).ops)
      if (op.kind == kind) return op;
    std::abort();
  };
  EXPECT_TRUE(
      refused([&](Plan& p) { body(p).operands[first(p, OpKind::forward).operands_begin].version += 1; }));
  EXPECT_TRUE(refused([&](Plan& p) {
    body(p).operands[first(p, OpKind::copy).operands_begin + 1].frame.offset += frame_alignment;
  }));
  EXPECT_TRUE(refused([](Plan& p) { p.tiers[0].budget = p.tiers[0].planned_peak - Bytes{1}; }));
  EXPECT_TRUE(refused([](Plan& p) { p.tiers[1].planned_peak -= Bytes{frame_alignment}; }));
  EXPECT_TRUE(refused([&](Plan& p) { first(p, OpKind::update).kind = OpKind::norm; }));
  EXPECT_TRUE(refused([](Plan& p) {
    p.links.clear(), p.links.push_back({SegmentKind::body, SegmentKind::body, {}});
  }));
}

}  // namespace tidepool::verify_test
