// Gradients that wait for the norm on the device: only if the host is short, and until shortly before their
// updates.
#include <gtest/gtest.h>

#include "planner/planner.h"
#include "tests/support/support_graph.h"

namespace tidepool::waiting_test {

Plan plan_with(Bytes device, Bytes host, bool clipping = true) {
  const auto plan =
      make_plan(test::make_graph({.layers = 12}),
                {.budgets = {device, host, Bytes{gib}}, .micro_batches = 2, .clipping = clipping});
  EXPECT_TRUE(plan) << plan.error().message;
  return plan.value();
}

// Windows whose gradient goes down in this segment before the window's update there.
std::vector<u32> waiting(const Plan& plan, SegmentKind kind) {
  const Segment& segment = plan.segment(kind);
  std::vector<u32> windows;
  std::vector<bool> updated(plan.chunks.size(), false);
  for (const Op& op : segment.ops) {
    if (op.kind == OpKind::update) updated[op.window] = true;
    if (op.kind != OpKind::copy || op.lane.kind != LaneKind::d2h || op.cut != 0) continue;
    const bool is_gradient = plan.chunk(segment.operands_of(op)[0].first).kind == Kind::grad;
    if (is_gradient && !updated[op.window]) windows.push_back(op.window);
  }
  return windows;
}

TEST(WaitingGradients, GoDownBeforeTheirUpdatesIfTheHostIsShort) {
  const Plan plan = plan_with(Bytes{700 * kib}, Bytes{1500 * kib});
  const std::vector<u32> windows = waiting(plan, SegmentKind::body);
  EXPECT_FALSE(windows.empty());
  EXPECT_EQ(waiting(plan, SegmentKind::drain), windows);
}

TEST(WaitingGradients, GoDownAtOnceIfTheHostHoldsAll) {
  EXPECT_TRUE(waiting(plan_with(Bytes{700 * kib}, Bytes{100 * mib}), SegmentKind::drain).empty());
}

TEST(WaitingGradients, NeedClipping) {
  EXPECT_TRUE(waiting(plan_with(Bytes{700 * kib}, Bytes{1500 * kib}, false), SegmentKind::drain).empty());
}

}  // namespace tidepool::waiting_test
