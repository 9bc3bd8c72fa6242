// Streams of models with experts: their declaration, and plans in which one is wrong.
#include <gtest/gtest.h>

#include "planner/planner.h"
#include "planner/verify/verify.h"
#include "tests/support/support_graph.h"

namespace tidepool::streams_test {

const ModelGraph& graph() {
  static const ModelGraph g = test::make_graph({.layers = 2, .expert_groups = 3});
  return g;
}

std::string uses_text(const std::vector<StreamUse>& uses) {
  std::string text;
  for (const StreamUse& use : uses) {
    const char* const access = use.access == Access::read ? "<" : use.access == Access::write ? ">" : "=";
    text += fmt::format("{}{}{}", text.empty() ? "" : " ", access, name(graph().streams[use.stream].kind));
  }
  return text;
}

TEST(Streams, BlocksOfALayerWithExpertsHandOnWhatTheNextOnesRead) {
  const std::vector<Block>& blocks = graph().blocks;
  ASSERT_EQ(blocks[5].name, "h.1");
  const auto forward = [&](u32 b) { return uses_text(blocks[b].forward_streams); };
  const auto backward = [&](u32 b) { return uses_text(blocks[b].backward_streams); };
  EXPECT_EQ(forward(0), ">activation");
  EXPECT_EQ(forward(1), "<activation >post_attention >normed >routes >router_sums");
  EXPECT_EQ(forward(2), "<normed <routes >expert_sum");
  EXPECT_EQ(forward(3), "<normed <routes =expert_sum");
  EXPECT_EQ(forward(4), "<post_attention <normed <routes <expert_sum >activation");
  EXPECT_EQ(forward(5), "<activation >post_attention >normed >routes =router_sums");
  EXPECT_EQ(backward(4), "<normed <routes <activation_grad >normed_grad >routes_grad");
  EXPECT_EQ(backward(2), "<normed <routes <activation_grad =normed_grad =routes_grad");
  EXPECT_EQ(backward(1), "<activation <routes <router_sums =activation_grad =normed_grad <routes_grad");
  EXPECT_EQ(backward(9), "<activation <router_sums >activation_grad");
}

TEST(Streams, AGroupOfAllExpertsNeedsNoSum) {
  const ModelGraph one = test::make_graph({.layers = 1, .expert_groups = 1});
  for (const Stream& stream : one.streams) EXPECT_NE(stream.kind, Kind::expert_sum);
}

Plan plan() {
  auto made = make_plan(graph(), {.budgets = {Bytes{1400 * kib}, Bytes{900 * kib}, Bytes{gib}},
                                  .micro_batches = 4,
                                  .chunk_bytes = Bytes{16 * kib},
                                  .sweeps = 2});
  EXPECT_TRUE(made) << made.error().message;
  return std::move(made).value();
}

struct Found {
  Op* op = nullptr;
  Operand* operand = nullptr;
  Operand* operator->() const { return operand; }
};

// The first operand of this kind and access in the body's ops of this kind.
Found find(Plan& plan, OpKind op_kind, Kind kind, Access access) {
  Segment& body = plan.segments[static_cast<u32>(SegmentKind::body)];
  for (Op& op : body.ops) {
    if (op.kind != op_kind) continue;
    for (u32 i = op.operands_begin; i < op.operands_begin + op.operands_count; ++i)
      if (plan.chunk(body.operands[i].first).kind == kind && body.operands[i].access == access)
        return {&op, &body.operands[i]};
  }
  ADD_FAILURE() << name(op_kind) << " " << name(kind);
  return {};
}

void expect_refused(const Plan& plan, const std::string& words) {
  const Result<void> verified = verify_plan(plan, graph());
  ASSERT_FALSE(verified);
  EXPECT_NE(verified.error().message.find(words), std::string::npos) << verified.error().message;
}

TEST(VerifyStreams, AcceptsThePlannersPlan) { EXPECT_TRUE(verify_plan(plan(), graph())); }

TEST(VerifyStreams, CanaryThatReadsAnotherMicroBatchIsRefused) {
  Plan p = plan();
  const Found routes = find(p, OpKind::forward, Kind::routes, Access::read);
  routes->first = ChunkId{index(routes->first) + 1};
  expect_refused(p, "takes routes of another micro-batch");
}

TEST(VerifyStreams, CanaryWithTwoStreamsInEachOthersPlaceIsRefused) {
  Plan p = plan();
  const Found normed = find(p, OpKind::forward, Kind::normed, Access::read);
  std::swap(normed.operand[0], normed.operand[1]);
  expect_refused(p, "takes routes where its block uses normed");
}

TEST(VerifyStreams, CanaryThatOverwritesASumIsRefused) {
  Plan p = plan();
  const Found sum = find(p, OpKind::forward, Kind::expert_sum, Access::read_write);
  sum->access = Access::write;
  ++sum->version;
  expect_refused(p, "takes expert_sum where its block uses expert_sum");
}

TEST(VerifyStreams, CanaryThatReadsAnOldVersionIsRefused) {
  Plan p = plan();
  const Found grad = find(p, OpKind::backward, Kind::normed_grad, Access::read_write);
  --grad->version;
  expect_refused(p, "reads normed_grad at version 0, not 1");
}

TEST(VerifyStreams, CanaryThatSkipsAGroupIsRefused) {
  Plan p = plan();
  Segment& body = p.segments[static_cast<u32>(SegmentKind::body)];
  u32 left = 0;
  for (Op& op : body.ops)  // the second group does the work of the third
    if (op.kind == OpKind::forward && op.block == 3) op.block = 4, ++left;
  EXPECT_EQ(left, 4u);
  expect_refused(p, "forward");
}

TEST(VerifyStreams, CanaryThatLeavesOutAStreamIsRefused) {
  Plan p = plan();
  const Found sums = find(p, OpKind::forward, Kind::router_sums, Access::write);
  Segment& body = p.segments[static_cast<u32>(SegmentKind::body)];
  const auto at = sums.operand - body.operands.data();
  const Op changed = *sums.op;
  body.operands.erase(body.operands.begin() + at);
  for (Op& op : body.ops)
    if (op.operands_begin > changed.operands_begin) --op.operands_begin;
  --sums.op->operands_count;
  expect_refused(p, "takes 4 of its block's 5 streams");
}

}  // namespace tidepool::streams_test
