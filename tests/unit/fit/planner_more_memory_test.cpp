// More memory must not cause more traffic.
#include <gtest/gtest.h>

#include "model/blocks.h"
#include "planner/planner.h"

namespace tidepool::planner_more_memory_test {

Bytes disk_bytes(const Plan& plan) {
  const auto moved = link_bytes(plan, SegmentKind::body);
  return moved[static_cast<u32>(LinkKind::disk_read)] + moved[static_cast<u32>(LinkKind::disk_write)];
}

// Regression: at about these sizes a host that could not be filled to the last byte was planned almost empty.
TEST(Planner, MoreHostMemoryMovesLittleMoreAtMost) {
  const ModelConfig config = {
      .vocab_size = 256, .positions = 64, .width = 64, .layers = 3, .attention = {.heads = 4}};
  const ModelGraph graph = build_model(config, Precision::bf16, {.sequences = 1, .tokens = 64}).value();
  Bytes least{~u64{0}};
  for (u64 host = 2304; host <= 5120; host += 128) {
    const auto plan =
        make_plan(graph, {.budgets = {Bytes{mib}, Bytes{host * kib}, Bytes{gib}}, .micro_batches = 16});
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_LE(disk_bytes(*plan).value, least.value / 20 * 21) << host << " KiB";
    least = std::min(least, disk_bytes(*plan));
  }
}

}  // namespace tidepool::planner_more_memory_test
