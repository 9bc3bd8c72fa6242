// Random plans under extreme timings: lanes up to 30 times faster or slower than predicted, disk requests
// that overtake each other. No seed may find a hazard in a plan that verifies, and some must find an injected
// one. TIDEPOOL_SWARM sets the number of plans.
#include <gtest/gtest.h>

#include <cstdlib>

#include "engine/engine.h"
#include "executor/sim/sim_executor.h"
#include "planner/verify/verify.h"
#include "tests/support/random_case.h"
#include "tests/support/segments.h"

namespace tidepool::sim_swarm_test {

u32 simulations() {
  const char* text = std::getenv("TIDEPOOL_SWARM");
  return text != nullptr ? static_cast<u32>(std::strtoul(text, nullptr, 10)) : test::random_cases(400);
}

Machine random_machine(std::mt19937& rng) {
  const auto rate = [&] { return 1e8 * static_cast<double>(u64{1} << rng() % 12); };
  Machine m;
  m.device.flops_per_s.fill(rate());
  m.copies = {.h2d_bytes_per_s = rate(), .d2h_bytes_per_s = rate(), .both_bytes_per_s = rate()};
  m.host.update_bytes_per_s = rate();
  m.disk = {.read_bytes_per_s = rate(), .write_bytes_per_s = rate(), .mixed_bytes_per_s = rate()};
  m.device.kind = rng() % 2 ? DeviceKind::cpu : DeviceKind::cuda;
  return m;
}

Result<void> simulate(const Plan& plan, const ModelGraph& graph, u32 seed) {
  using enum SegmentKind;
  std::mt19937 rng(seed);
  const auto sim = SimExecutor::create(
      plan, graph, {.machine = random_machine(rng), .seed = seed, .jitter = 2.0, .swarm = 30.0});
  const auto engine = Engine::create(plan, *sim, {});
  std::vector<SegmentRun> runs = test::training_runs(3, plan.clipping);
  runs.insert(runs.end(), {{evaluation, 4}, {forward_backward, 4}, {body, 5}});
  test::SegmentList list(std::move(runs));
  EngineObserver nobody;
  return engine->run(list, nobody);
}

TEST(SimSwarm, FindsNoHazardInRandomPlans) {
  const u32 wanted = simulations();
  u32 done = 0;
  constexpr u32 timings = 5;  // per plan
  for (u32 seed = 0; done < wanted; ++seed) {
    test::RandomCase c = test::random_case(seed, 1 + seed % 4);
    if (c.options.devices > 1 && seed % 3 == 0) c.options.parallel = Parallel::layers;
    const ModelGraph graph = test::make_graph(c.shape);
    const auto plan = make_plan(graph, c.options);
    if (!plan) continue;
    for (u32 i = 0; i < timings; ++i, ++done) {
      const auto result = simulate(*plan, graph, seed * timings + i);
      ASSERT_TRUE(result) << "plan " << seed << ": " << result.error().message;
    }
  }
  RecordProperty("simulations", static_cast<int>(done));
}

// Removes an edge that verify_plan requires: some timings reveal it.
TEST(SimSwarm, SeesTheCanaryInSomeSeeds) {
  const ModelGraph graph = test::make_graph({});
  auto plan = make_plan(graph, {.budgets = {Bytes{700 * kib}, Bytes{500 * kib}, Bytes{gib}},
                                .micro_batches = 2,
                                .chunk_bytes = Bytes{16 * kib}});
  ASSERT_TRUE(plan) << plan.error().message;
  Segment& body = plan->segments[static_cast<u32>(SegmentKind::body)];
  Op* forward = nullptr;  // the last copy that a forward waits for is removed
  for (Op& op : body.ops) {
    if (op.kind != OpKind::forward || op.deps_count == 0) continue;
    OpId& dep = body.deps[op.deps_begin + op.deps_count - 1];
    if (body.ops[index(dep)].lane.kind != LaneKind::h2d) continue;
    forward = &op;
    break;
  }
  ASSERT_NE(forward, nullptr);
  --forward->deps_count;
  EXPECT_FALSE(verify_plan(*plan, graph));
  u32 seen = 0;
  for (u32 seed = 0; seed < 100; ++seed) seen += simulate(*plan, graph, seed) ? 0 : 1;
  EXPECT_GT(seen, 0u);
  RecordProperty("seen", static_cast<int>(seen));
}

TEST(SimFaults, ADiskThatFailsEndsTheRunWithAnIoError) {
  const ModelGraph graph = test::make_graph({});
  const auto plan = make_plan(graph, {.budgets = {Bytes{700 * kib}, Bytes{500 * kib}, Bytes{gib}},
                                      .micro_batches = 2,
                                      .home = HomePolicy::disk});
  ASSERT_TRUE(plan) << plan.error().message;
  const auto sim = SimExecutor::create(*plan, graph, {.seed = 3, .disk_faults = 0.05});
  const auto engine = Engine::create(*plan, *sim, {});
  test::SegmentList list(
      {{SegmentKind::forward_backward, 1}, {SegmentKind::body, 2}, {SegmentKind::body, 3}});
  EngineObserver nobody;
  const auto result = engine->run(list, nobody);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::io);
}

}  // namespace tidepool::sim_swarm_test
