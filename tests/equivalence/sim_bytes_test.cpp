// Runs the same plans on the cpu executor, which moves and counts bytes, and on the sim executor, which moves
// none: each link carries the same bytes on both, and as many as the plan says.
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "executor/sim/sim_executor.h"
#include "model/blocks.h"
#include "planner/planner.h"
#include "tests/support/cpu_rig.h"
#include "tests/support/segments.h"

namespace tidepool::sim_bytes_test {

using enum SegmentKind;

struct Moved {
  std::array<Bytes, link_count> links{};
  Bytes between_devices{};
  bool operator==(const Moved&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Moved& m) {
  for (u32 l = 0; l < link_count; ++l)
    out << name(static_cast<LinkKind>(l)) << " " << m.links[l].value << " ";
  return out << "between devices " << m.between_devices.value;
}

std::vector<SegmentRun> runs_of(const Plan& plan) {
  std::vector<SegmentRun> runs = test::training_runs(3, plan.clipping);
  for (u64 i = 1; i <= plan.sweeps; ++i) runs.push_back({evaluation, i});
  return runs;
}

Moved planned(const Plan& plan) {
  Moved sum;
  for (const SegmentRun& run : runs_of(plan)) {
    const auto bytes = link_bytes(plan, run.kind);
    for (u32 l = 0; l < link_count; ++l) sum.links[l] += bytes[l];
    sum.between_devices += comm_bytes(plan, run.kind);
  }
  return sum;
}

void replay(const Plan& plan, Executor& executor) {
  const auto engine = Engine::create(plan, executor, {.watchdog = Nanos{60'000'000'000}});
  test::SegmentList runs(runs_of(plan));
  EngineObserver nobody;
  const auto result = engine->run(runs, nobody);
  EXPECT_TRUE(result) << result.error().message;
}

Moved on_cpu(const Plan& plan, const ModelGraph& graph) {
  test::HashedData data(graph.config.vocab_size);
  data.step_settings.target_tokens = graph.batch.rows() * plan.micro_batches;
  if (!plan.clipping) data.step_settings.max_grad_norm = 0;
  data.micro_batches = plan.micro_batches / plan.sweeps;
  test::CpuRig rig(plan, graph, data);
  for (u32 id = 0; id < plan.chunks.size(); ++id) {
    if (!is_persistent(plan.chunks[id].kind)) continue;
    const std::vector<std::byte> zeros(plan.chunks[id].bytes.value);
    EXPECT_TRUE(rig.executor->write_home(ChunkId{id}, zeros));
  }
  replay(plan, *rig.executor);
  return {rig.executor->moved(), rig.executor->moved_between_devices()};
}

Moved on_sim(const Plan& plan, const ModelGraph& graph) {
  const auto sim = SimExecutor::create(plan, graph, {});
  replay(plan, *sim);
  return {sim->moved(), sim->moved_between_devices()};
}

struct Setting {
  u32 devices = 1;
  bool clipping = true;
  HomePolicy home{};
  u64 device_kib = 0, host_kib = 0;  // 0: plenty
  u32 sweeps = 1;
  Family family = Family::gpt2;
  bool packed = false;
  Parallel parallel = Parallel::data;
};

ModelConfig model_of(Family family) {
  ModelConfig m = default_model(family);
  m.vocab_size = 97, m.positions = 32, m.width = 64, m.layers = 3, m.attention.heads = 4;
  if (family != Family::gpt2)
    m.attention.kv_heads_given = 2, m.mlp.inner_given = 160, m.tied = family == Family::qwen3;
  return m;
}

class SimBytes : public ::testing::TestWithParam<Setting> {};

TEST_P(SimBytes, EveryLinkCarriesAsMuchAsOnTheCpu) {
  const Setting& setting = GetParam();
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    const ModelGraph graph = build_model(model_of(setting.family), precision,
                                         {.sequences = 1, .tokens = 32, .packed = setting.packed})
                                 .value();
    const auto budget = [](u64 given) { return given == 0 ? Bytes{64 * mib} : Bytes{given * kib}; };
    const auto plan =
        make_plan(graph, {.budgets = {budget(setting.device_kib), budget(setting.host_kib), Bytes{64 * mib}},
                          .micro_batches = 2 * setting.devices,
                          .devices = setting.devices,
                          .parallel = setting.parallel,
                          .clipping = setting.clipping,
                          .home = setting.home,
                          .chunk_bytes = Bytes{40 * kib},
                          .sweeps = setting.sweeps});
    ASSERT_TRUE(plan) << plan.error().message;
    const Moved expected = planned(*plan);
    EXPECT_EQ(on_cpu(*plan, graph), expected);
    EXPECT_EQ(on_sim(*plan, graph), expected);
    EXPECT_EQ(expected.between_devices.value > 0, plan->replicas() > 1);
    EXPECT_GT(expected.links[static_cast<u32>(LinkKind::h2d)].value, 0u);  // batches at least
  }
}

constexpr Setting settings[] = {
    {.home = HomePolicy::device},
    {.home = HomePolicy::host},
    {.home = HomePolicy::disk},
    {.home = HomePolicy::mixed, .sweeps = 2},
    {.clipping = false, .home = HomePolicy::disk},
    {.clipping = false, .home = HomePolicy::mixed, .sweeps = 2},
    {.device_kib = 1500, .host_kib = 2000},
    {.clipping = false, .device_kib = 1500, .host_kib = 2000},
    {.devices = 2, .home = HomePolicy::device},
    {.devices = 2, .home = HomePolicy::disk},
    {.devices = 2, .clipping = false, .home = HomePolicy::host},
    {.devices = 2, .clipping = false, .home = HomePolicy::mixed, .sweeps = 2},
    {.devices = 2, .device_kib = 1500, .host_kib = 2500},
    {.home = HomePolicy::disk, .family = Family::llama},
    {.home = HomePolicy::mixed, .sweeps = 2, .family = Family::llama, .packed = true},
    {.devices = 2, .home = HomePolicy::disk, .family = Family::qwen3, .packed = true},
    {.devices = 2, .home = HomePolicy::device, .parallel = Parallel::layers},
    {.devices = 3, .clipping = false, .home = HomePolicy::mixed, .sweeps = 2, .parallel = Parallel::layers},
    {.devices = 2, .device_kib = 1500, .host_kib = 3000, .parallel = Parallel::layers},
    {.devices = 4,
     .home = HomePolicy::disk,
     .family = Family::qwen3,
     .packed = true,
     .parallel = Parallel::layers},
};

INSTANTIATE_TEST_SUITE_P(Plans, SimBytes, ::testing::ValuesIn(settings));

}  // namespace tidepool::sim_bytes_test
