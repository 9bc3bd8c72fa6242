// Homes of several nodes at rest, led by node 0: what happens to its own writes when a node has failed.
#include "session/nodes_at_rest.h"

#include <gtest/gtest.h>

#include "planner/planner.h"
#include "tests/support/cpu_rig.h"
#include "tests/support/nodes_fixture.h"
#include "tests/support/small_training.h"

namespace tidepool::nodes_at_rest_test {

// Counts writes that were begun and not ended.
class CountingHomes final : public StateAtRest {
 public:
  Result<void> read_home(ChunkId, std::span<std::byte>) override { return {}; }
  Result<void> begin_write_home(ChunkId, std::span<const std::byte>) override {
    ++begun, ++in_flight;
    return {};
  }
  Result<void> end_write_home(ChunkId) override {
    --in_flight;
    return {};
  }
  Result<void> clear_home(ChunkId) override { return {}; }
  std::span<std::byte> home_memory(ChunkId) const override { return {}; }

  int begun = 0, in_flight = 0;
};

TEST(LeadingHomes, NoWriteStaysInFlightWhenANodeFails) {
  const ModelGraph graph = test::small_gpt(Precision::fp32);
  const Plan plan =
      make_plan(graph, {.budgets = {test::roomy, test::roomy, test::roomy}, .micro_batches = 2, .nodes = 2})
          .value();
  auto transports = create_local_transports({.nodes = 2}).value();
  {
    test::HashedData data(graph.config.vocab_size);
    test::CpuRig rig(plan, graph, data, {.transport = transports[0].get()});
    CountingHomes own;
    LeadingHomes homes(plan, own, *rig.executor->net());
    transports[1]->fail({ErrorKind::io, "the disk is full"});
    u32 id = 0;
    while (plan.chunks[id].kind != Kind::param) ++id;
    const std::vector<std::byte> content(plan.chunks[id].bytes.value);
    const Result<void> begun = homes.begin_write_home(ChunkId{id}, content);
    ASSERT_FALSE(begun);
    EXPECT_EQ(begun.error().kind, ErrorKind::io);
    EXPECT_EQ(own.begun, 1);
    EXPECT_EQ(own.in_flight, 0);
  }
}

}  // namespace tidepool::nodes_at_rest_test
