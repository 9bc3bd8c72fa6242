// Several nodes in one process, each with an executor and a plan of its own: they end in the bits of one
// node, and move over the network what was planned.
#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "net/local_network.h"
#include "planner/planner.h"
#include "planner/verify/verify_nodes.h"
#include "tests/support/adamw_state.h"
#include "tests/support/cpu_rig.h"
#include "tests/support/segments.h"
#include "tests/support/small_training.h"

namespace tidepool::nodes_training_test {

using test::CpuRig;
using test::HashedData;
using test::SegmentList;
using namespace test;  // small_training.h
using enum SegmentKind;

std::vector<SegmentRun> runs_of(const Plan& plan) {
  std::vector<SegmentRun> runs = {{forward_backward, 1}};
  for (u64 step = 2; step <= steps; ++step) runs.push_back({body, step});
  if (plan.clipping) runs.push_back({drain, steps + 1});
  for (u64 i = 1; i <= 2 * plan.sweeps; ++i) runs.push_back({evaluation, i});
  return runs;
}

struct NodeRun {
  Outcome outcome;
  NetBytes sent, planned;
  std::vector<std::vector<std::byte>> chunks;  // by id: what this node has of the state
  std::optional<Error> error;
};

HashedData data_of(const ModelGraph& graph, const Plan& plan) {
  HashedData data(graph.config.vocab_size);
  data.step_settings.target_tokens = graph.batch.rows() * plan.micro_batches;
  data.sequences = graph.batch.sequences;
  if (!plan.clipping) data.step_settings.max_grad_norm = 0;
  if (graph.precision == Precision::fp16) data.step_settings.loss_scaling = scaling;
  data.micro_batches = plan.micro_batches / plan.sweeps;
  return data;
}

void run_node(const ModelGraph& graph, const Plan& plan, Transport* transport, NodeRun& out) {
  HashedData data = data_of(graph, plan);
  CpuRig rig(plan, graph, data, {.transport = transport});
  if (graph.precision == Precision::fp16) rig.executor->set_loss_scale({.scale = first_scale});
  const auto has = [&](u32 id) { return plan.homes[id].bytes.value > 0; };
  for (u32 id = 0; id < plan.chunks.size(); ++id)
    if (has(id)) ASSERT_TRUE(rig.executor->write_home(ChunkId{id}, initial_chunk(plan.chunks[id], graph)));
  const std::vector<SegmentRun> runs = runs_of(plan);
  for (const SegmentRun& run : runs) {
    const auto bytes = link_bytes(plan, run.kind);
    for (u32 i = 0; i < link_count; ++i) out.outcome.planned[i] += bytes[i];
    const NetBytes net = net_bytes(plan, run.kind);
    out.planned.sent += net.sent, out.planned.received += net.received;
  }
  const auto engine = Engine::create(plan, *rig.executor, {.watchdog = Nanos{60'000'000'000}});
  SegmentList list(runs);
  ResultTaker taker(*rig.executor, out.outcome);
  if (const Result<void> ran = engine->run(list, taker); !ran) {
    out.error = ran.error();
    return;
  }
  const Result<EvalResult> eval = rig.executor->take_eval();
  ASSERT_TRUE(eval) << eval.error().message;
  out.outcome.eval_loss = eval->loss();
  out.chunks.resize(plan.chunks.size());
  for (u32 id = 0; id < plan.chunks.size(); ++id) {
    if (!has(id)) continue;
    out.chunks[id].resize(plan.chunks[id].bytes.value);
    ASSERT_TRUE(rig.executor->read_home(ChunkId{id}, out.chunks[id]));
  }
  out.outcome.moved = rig.executor->moved();
  out.sent = rig.executor->moved_over_network();
  for (u32 t = 0; t < tier_count; ++t)
    EXPECT_LE(rig.executor->high_water(static_cast<Tier>(t)), plan.tiers[t].planned_peak);
}

std::vector<Plan> plans_of(const ModelGraph& graph, PlanOptions options,
                           const std::vector<Bytes>& hosts = {}) {
  std::vector<Plan> plans;
  for (options.node = 0; options.node < options.nodes; ++options.node) {
    if (!hosts.empty()) options.budgets.host = hosts[options.node];
    Result<Plan> plan = make_plan(graph, options);
    EXPECT_TRUE(plan) << plan.error().message;
    if (plan) plans.push_back(std::move(plan).value());
  }
  return plans;
}

std::vector<NodeRun> run_nodes(const ModelGraph& graph, const std::vector<Plan>& plans, u64 seed = 1) {
  const u32 nodes = static_cast<u32>(plans.size());
  auto transports = create_local_transports({.nodes = nodes, .seed = seed, .delay_us_max = 200}).value();
  std::vector<NodeRun> runs(nodes);
  std::vector<std::thread> threads;
  for (u32 node = 0; node < nodes; ++node)
    threads.emplace_back([&, node] { run_node(graph, plans[node], transports[node].get(), runs[node]); });
  for (std::thread& thread : threads) thread.join();
  std::vector<std::thread> ends;  // each says goodbye and waits for the others
  for (auto& transport : transports) ends.emplace_back([&transport] { transport.reset(); });
  for (std::thread& thread : ends) thread.join();
  return runs;
}

// State in the order of state_of(): of each chunk that which its owner has. All nodes must have its
// parameters.
std::vector<std::byte> whole_state(const std::vector<Plan>& plans, const std::vector<NodeRun>& runs) {
  std::vector<std::byte> all;
  const Plan& plan = plans.front();
  for (const Kind kind : test::persistent_kinds(plan.state_slots))
    for (u32 id = 0; id < plan.chunks.size(); ++id) {
      if (plan.chunks[id].kind != kind) continue;
      const std::vector<std::byte>& content = runs[plan.chunks[id].owner].chunks[id];
      EXPECT_EQ(content.size(), plan.chunks[id].bytes.value);
      all.insert(all.end(), content.begin(), content.end());
      for (const NodeRun& run : runs) {
        if (kind == Kind::param)
          EXPECT_TRUE(run.chunks[id] == content) << id;
        else if (&run != &runs[plan.chunks[id].owner])
          EXPECT_TRUE(run.chunks[id].empty()) << id;
      }
    }
  return all;
}

Outcome on_one_node(const ModelGraph& graph, PlanOptions options) {
  options.nodes = 1;
  const std::vector<Plan> plans = plans_of(graph, options);
  NodeRun run;
  run_node(graph, plans.at(0), nullptr, run);
  EXPECT_FALSE(run.error) << run.error->message;
  run.outcome.state = whole_state(plans, {run});
  return run.outcome;
}

void expect_equal(const ModelGraph& graph, const PlanOptions& options, const Outcome& one,
                  const std::string& what, const std::vector<Bytes>& hosts = {}) {
  SCOPED_TRACE(what);
  const std::vector<Plan> plans = plans_of(graph, options, hosts);
  ASSERT_EQ(plans.size(), options.nodes);
  ASSERT_TRUE(verify_nodes(plans, graph));
  const std::vector<NodeRun> runs = run_nodes(graph, plans);
  for (const NodeRun& run : runs) {
    ASSERT_FALSE(run.error) << run.error->message;
    EXPECT_EQ(run.outcome.losses, one.losses);
    EXPECT_EQ(run.outcome.norms, one.norms);
    EXPECT_EQ(run.outcome.scales, one.scales);
    EXPECT_EQ(run.outcome.eval_loss, one.eval_loss);
    EXPECT_EQ(run.outcome.moved, run.outcome.planned);
    EXPECT_EQ(run.sent, run.planned);
    EXPECT_GT(run.sent.sent.value, 0u);
  }
  EXPECT_TRUE(whole_state(plans, runs) == one.state);
}

class NodesTraining : public ::testing::TestWithParam<Training> {};

TEST_P(NodesTraining, EndsInTheBitsOfOneNode) {
  const ModelGraph graph = small_gpt(GetParam());
  for (const bool clipping : {true, false}) {
    if (GetParam().precision == Precision::fp16 && !clipping) continue;
    for (const u32 nodes : {2u, 3u}) {
      PlanOptions options{
          .budgets = {roomy, roomy, roomy}, .micro_batches = nodes, .nodes = nodes, .clipping = clipping};
      const Outcome one = on_one_node(graph, options);
      for (const HomePolicy home : {HomePolicy::automatic, HomePolicy::host, HomePolicy::disk}) {
        options.home = home;
        expect_equal(
            graph, options, one,
            std::to_string(nodes) + (clipping ? " clipped " : " ") + std::to_string(static_cast<int>(home)));
      }
    }
  }
}

TEST_P(NodesTraining, EndsInTheBitsOfOneNodeWithAsManyDevices) {
  const ModelGraph graph = small_gpt(GetParam());
  PlanOptions options{
      .budgets = {roomy, roomy, roomy}, .micro_batches = 4, .devices = 2, .home = HomePolicy::host};
  const Outcome one = on_one_node(graph, options);  // each device accumulates two
  options.devices = 1, options.nodes = 2;
  expect_equal(graph, options, one, "accumulation");
  options.sweeps = 2;
  expect_equal(graph, options, one, "sweeps");
}

INSTANTIATE_TEST_SUITE_P(Trainings, NodesTraining, all_trainings(),
                         [](const auto& info) { return name(info.param); });

TEST(NodesTrainingMemory, MayDifferBetweenNodes) {
  const ModelGraph graph = small_gpt(Precision::bf16);
  const PlanOptions options{
      .budgets = {roomy, roomy, roomy}, .micro_batches = 3, .nodes = 3, .chunk_bytes = Bytes{256 * kib}};
  expect_equal(graph, options, on_one_node(graph, options), "", {Bytes{4 * mib}, Bytes{8 * mib}, roomy});
}

// A node sums its micro-batches in their order, however many devices share its layers.
TEST(NodesTrainingDevices, LayersOverTheDevicesOfTwoNodesChangeNoBit) {
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    const ModelGraph graph = small_gpt(precision);
    PlanOptions options{
        .budgets = {roomy, roomy, roomy}, .micro_batches = 6, .devices = 2, .home = HomePolicy::host};
    const Outcome one = on_one_node(graph, options);  // each device accumulates three
    options.parallel = Parallel::layers, options.nodes = 2;
    for (const u32 devices : {2u, 3u}) {
      options.devices = devices;
      expect_equal(graph, options, one, std::string(name(precision)) + " " + std::to_string(devices));
    }
  }
}

TEST(NodesTrainingDevices, TwoNodesOfTwoDevicesRun) {
  const ModelGraph graph = small_gpt(Precision::fp32);
  PlanOptions options{.budgets = {roomy, roomy, roomy}, .micro_batches = 4, .devices = 2, .nodes = 2};
  const std::vector<Plan> plans = plans_of(graph, options);
  const std::vector<NodeRun> once = run_nodes(graph, plans, 1), again = run_nodes(graph, plans, 2);
  EXPECT_EQ(once[0].outcome.losses, again[1].outcome.losses);
  EXPECT_TRUE(whole_state(plans, once) == whole_state(plans, again));
}

}  // namespace tidepool::nodes_training_test
