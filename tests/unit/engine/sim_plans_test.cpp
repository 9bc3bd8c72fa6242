// Plans of the planner, replayed by the engine in virtual time: no wrong read under any timing.
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "engine/profile.h"
#include "executor/sim/sim_executor.h"
#include "planner/planner.h"
#include "tests/support/segments.h"
#include "tests/support/support_graph.h"

namespace tidepool::sim_plans_test {

using test::SegmentList;
using enum SegmentKind;

std::vector<SegmentRun> three_steps_and_evaluation(bool drains) {
  std::vector<SegmentRun> runs = test::training_runs(3, drains);
  runs.push_back({evaluation, 4});
  runs.push_back({forward_backward, 4});
  if (drains) runs.push_back({drain, 5});
  return runs;
}

struct Case {
  const char* name;
  PlanOptions options;
};

class SimPlans : public ::testing::TestWithParam<Case> {};

TEST_P(SimPlans, ReadTheRightVersionsUnderAnyTiming) {
  const ModelGraph graph = test::make_graph({.layers = 6, .precision = Precision::bf16});
  const auto plan = make_plan(graph, GetParam().options);
  ASSERT_TRUE(plan) << plan.error().message;
  for (u64 seed = 0; seed < 20; ++seed) {
    SimOptions options{.seed = seed, .jitter = seed == 0 ? 0.0 : 3.0, .swarm = seed == 0 ? 1.0 : 20.0};
    // From a disk that is the bottleneck to a disk that costs nothing.
    options.machine.disk.read_bytes_per_s = options.machine.disk.mixed_bytes_per_s = seed % 2 ? 1e8 : 1e11;
    options.machine.host.update_bytes_per_s = seed % 3 ? 1e9 : 1e12;
    const auto executor = SimExecutor::create(*plan, graph, options);
    const auto engine = Engine::create(*plan, *executor, {});
    TimeProfile profile(*plan);
    std::vector<SegmentRun> runs = three_steps_and_evaluation(GetParam().options.clipping);
    for (u64 i = 0; i < runs.size(); ++i) runs[i].persists = seed % 4 == 0 || (seed >> i) % 2 != 0;
    SegmentList list(runs);
    const auto result = engine->run(list, profile);
    ASSERT_TRUE(result) << result.error().message << " seed " << seed;
    EXPECT_EQ(profile.of(body).runs, 2u);
    EXPECT_LE(profile.total().wall(), executor->now());
  }
}

TEST_P(SimPlans, TakeTheSameTimeTwice) {
  const ModelGraph graph = test::make_graph({.layers = 3, .precision = Precision::bf16});
  const auto plan = make_plan(graph, GetParam().options);
  ASSERT_TRUE(plan) << plan.error().message;
  Nanos took[2];
  for (Nanos& t : took) {
    const auto executor = SimExecutor::create(*plan, graph, {.seed = 7, .jitter = 0.5});
    const auto engine = Engine::create(*plan, *executor, {});
    SegmentList list(three_steps_and_evaluation(GetParam().options.clipping));
    EngineObserver nobody;
    ASSERT_TRUE(engine->run(list, nobody));
    t = executor->now();
  }
  EXPECT_EQ(took[0], took[1]);
}

// RETURNS: the smallest budgets that this graph's plan accepts, searched from above.
Budgets tight(const ModelGraph& graph, PlanOptions options) {
  for (Bytes* tier : {&options.budgets.device, &options.budgets.host}) {
    for (u64 cut = 32 * mib; cut >= frame_alignment; cut /= 2) {
      while (tier->value > cut) {
        const Bytes before = *tier;
        *tier -= Bytes{cut};
        if (make_plan(graph, options)) continue;
        *tier = before;
        break;
      }
    }
  }
  return options.budgets;
}

TEST(SimExecutor, TightBudgetsReadTheRightVersions) {
  const ModelGraph graph = test::make_graph({.layers = 6, .precision = Precision::fp32});
  PlanOptions options{.budgets = {Bytes{64 * mib}, Bytes{64 * mib}, Bytes{64 * mib}}, .micro_batches = 2};
  options.budgets = tight(graph, options);
  const auto plan = make_plan(graph, options);
  ASSERT_TRUE(plan) << plan.error().message;
  for (u64 seed = 0; seed < 20; ++seed) {
    const auto executor = SimExecutor::create(*plan, graph, {.seed = seed, .jitter = 10.0});
    const auto engine = Engine::create(*plan, *executor, {});
    SegmentList list(three_steps_and_evaluation(true));
    EngineObserver nobody;
    const auto result = engine->run(list, nobody);
    ASSERT_TRUE(result) << result.error().message << " seed " << seed;
  }
}

// The canary: the simulation finds at run time the fault that verify_plan refuses before a run.
TEST(SimExecutor, SeesThatEdgesAreMissing) {
  const ModelGraph graph = test::make_graph({.layers = 6, .precision = Precision::bf16});
  auto plan = make_plan(
      graph, {.budgets = {Bytes{64 * mib}, Bytes{64 * mib}, Bytes{64 * mib}}, .home = HomePolicy::disk});
  ASSERT_TRUE(plan) << plan.error().message;
  for (Op& op : plan->segments[static_cast<u32>(body)].ops) {
    if (op.kind == OpKind::forward) op.deps_count = 0;
  }
  const auto executor = SimExecutor::create(*plan, graph, {});
  const auto engine = Engine::create(*plan, *executor, {});
  SegmentList list({{forward_backward, 1}, {body, 2}, {body, 3}});
  EngineObserver nobody;
  const auto result = engine->run(list, nobody);
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("the plan lacks an edge"), std::string::npos)
      << result.error().message;
}

const Budgets roomy{Bytes{64 * mib}, Bytes{64 * mib}, Bytes{64 * mib}};

INSTANTIATE_TEST_SUITE_P(
    Plans, SimPlans,
    ::testing::Values(
        Case{"resident", {.budgets = roomy, .home = HomePolicy::device}},
        Case{"host", {.budgets = roomy, .home = HomePolicy::host}},
        Case{"disk", {.budgets = roomy, .micro_batches = 2, .home = HomePolicy::disk}},
        Case{"mixed_unclipped", {.budgets = roomy, .clipping = false, .home = HomePolicy::mixed}},
        Case{"two_sweeps", {.budgets = roomy, .micro_batches = 4, .home = HomePolicy::disk, .sweeps = 2}},
        Case{"resident_committed", {.budgets = roomy, .home = HomePolicy::device, .versions = 2}},
        Case{"host_committed",
             {.budgets = roomy, .clipping = false, .home = HomePolicy::host, .versions = 2}},
        Case{"disk_committed",
             {.budgets = roomy, .micro_batches = 2, .home = HomePolicy::disk, .versions = 2}},
        Case{"mixed_committed", {.budgets = roomy, .home = HomePolicy::mixed, .versions = 3}},
        Case{"devices_committed",
             {.budgets = roomy, .micro_batches = 2, .devices = 2, .home = HomePolicy::mixed, .versions = 2}},
        Case{"layers_committed",
             {.budgets = roomy,
              .micro_batches = 2,
              .devices = 2,
              .parallel = Parallel::layers,
              .home = HomePolicy::mixed,
              .versions = 2}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace tidepool::sim_plans_test
