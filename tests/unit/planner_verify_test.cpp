// The verifier refuses plans with one fault; a checker that accepts them would be no checker.
#include <gtest/gtest.h>

#include "planner/planner.h"
#include "planner/verify.h"
#include "support_graph.h"

namespace tidepool {
namespace {

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
  EXPECT_NE(verified.error().message.find("forward on compute"), std::string::npos) << verified.error().message;
}

// Some edges are implied by others; most are not, and each of those must be missed.
TEST(VerifyPlan, NoticesMostMissingEdges) {
  const Plan plan = streaming_plan();
  u32 edges = 0, noticed = 0;
  for (u32 op = 0; op < plan.segment(SegmentKind::body).ops.size(); ++op)
    for (u32 e = 0; e < plan.segment(SegmentKind::body).ops[op].deps_count; ++e) {
      Plan broken = plan;
      remove_edge(broken, op, e);
      ++edges;
      noticed += verify_plan(broken, graph()) ? 0 : 1;
    }
  EXPECT_GT(edges, 50u);
  EXPECT_GT(noticed * 2, edges) << noticed << " of " << edges;
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
  EXPECT_TRUE(refused([&](Plan& p) { body(p).operands[first(p, OpKind::forward).operands_begin].version += 1; }));
  EXPECT_TRUE(refused([&](Plan& p) {
    body(p).operands[first(p, OpKind::copy).operands_begin + 1].frame.offset += frame_alignment;
  }));
  EXPECT_TRUE(refused([](Plan& p) { p.tiers[0].budget = p.tiers[0].planned_peak - Bytes{1}; }));
  EXPECT_TRUE(refused([](Plan& p) { p.tiers[1].planned_peak -= Bytes{frame_alignment}; }));
  EXPECT_TRUE(refused([&](Plan& p) { first(p, OpKind::update).kind = OpKind::norm; }));
  EXPECT_TRUE(refused([](Plan& p) { p.links.clear(), p.links.push_back({SegmentKind::body, SegmentKind::body, {}}); }));
}

}  // namespace
}  // namespace tidepool
