// The planner's plans on the CPU executor: a small GPT trains, and placement changes no bit.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/engine.h"
#include "engine/profile.h"
#include "model/blocks.h"
#include "planner/planner.h"
#include "tests/support/cpu_rig.h"
#include "tests/support/kernel_fixture.h"
#include "tests/support/segments.h"
#include "tests/support/small_training.h"
#include "tidepool/slot_range.h"
#include "tidepool/update_units.h"

namespace tidepool::executor_training_test {

using test::CpuRig;
using test::CpuRigOptions;
using test::HashedData;
using test::SegmentList;
using namespace test;  // small_training.h
using enum SegmentKind;

Outcome train(const ModelGraph& graph, const PlanOptions& options, const CpuRigOptions& rig_options = {}) {
  Outcome outcome;
  const auto plan = make_plan(graph, options);
  EXPECT_TRUE(plan) << plan.error().message;
  if (!plan) return outcome;
  HashedData data(graph.config.vocab_size);
  data.step_settings.target_tokens = graph.batch.rows() * options.micro_batches;
  data.sequences = graph.batch.sequences;
  if (!options.clipping) data.step_settings.max_grad_norm = 0;
  if (graph.precision == Precision::fp16) data.step_settings.loss_scaling = scaling;
  CpuRig rig(*plan, graph, data, rig_options);
  if (graph.precision == Precision::fp16) rig.executor->set_loss_scale({.scale = first_scale});
  for (u32 i = 0; i < plan->chunks.size(); ++i) {
    if (!is_persistent(plan->chunks[i].kind)) continue;
    EXPECT_TRUE(rig.executor->write_home(ChunkId{i}, initial_chunk(plan->chunks[i], graph)));
  }
  std::vector<SegmentRun> runs = {{forward_backward, 1}};
  for (u64 step = 2; step <= steps; ++step) runs.push_back({plan->clipping ? body : forward_backward, step});
  if (plan->clipping) runs.push_back({drain, steps + 1});
  // An evaluation runs as many micro-batches as a sweep.
  data.micro_batches = options.micro_batches / plan->sweeps;
  for (u64 i = 1; i <= 2 * plan->sweeps; ++i) runs.push_back({evaluation, i});
  for (const SegmentRun& run : runs) {
    const auto bytes = link_bytes(*plan, run.kind);
    for (u32 i = 0; i < link_count; ++i) outcome.planned[i] += bytes[i];
    outcome.planned_between_devices += comm_bytes(*plan, run.kind);
  }
  const auto engine = Engine::create(*plan, *rig.executor, {.watchdog = Nanos{10'000'000'000}});
  SegmentList list(runs);
  ResultTaker taker(*rig.executor, outcome);
  const auto result = engine->run(list, taker);
  EXPECT_TRUE(result) << result.error().message;
  const EvalResult eval = rig.executor->take_eval().value();
  EXPECT_EQ(eval.targets, 2 * graph.batch.rows() * options.micro_batches);
  outcome.eval_loss = eval.loss();
  outcome.state = state_of(*plan, *rig.executor);
  outcome.moved = rig.executor->moved();
  outcome.moved_between_devices = rig.executor->moved_between_devices();
  for (u32 i = 0; i < tier_count; ++i) {
    EXPECT_LE(rig.executor->high_water(static_cast<Tier>(i)), plan->tiers[i].planned_peak);
  }
  return outcome;
}

class CpuTraining : public ::testing::TestWithParam<Training> {};

TEST_P(CpuTraining, PlacementChangesNoBit) {
  const ModelGraph graph = small_gpt(GetParam());
  for (const bool clipping : {true, false}) {
    PlanOptions options{.budgets = {roomy, roomy, roomy},
                        .micro_batches = 2,
                        .clipping = clipping,
                        .home = HomePolicy::device};
    const Outcome resident = train(graph, options);
    ASSERT_EQ(resident.losses.size(), steps);
    EXPECT_NEAR(resident.losses[0], std::log(97.0), 0.2);
    EXPECT_NE(resident.losses[0], resident.losses[1]);
    for (const HomePolicy home : {HomePolicy::host, HomePolicy::disk, HomePolicy::mixed}) {
      for (const u64 chunk_kib : {0, 40}) {
        options.home = home;
        options.chunk_bytes = Bytes{chunk_kib * kib};
        options.sweeps = chunk_kib ? 2 : 1;
        const Outcome other = train(graph, options, {.workers = chunk_kib ? 3u : 1u});
        EXPECT_EQ(other.losses, resident.losses);
        EXPECT_EQ(other.norms, resident.norms);
        EXPECT_TRUE(other == resident) << static_cast<u32>(home) << " " << chunk_kib << " " << clipping;
        EXPECT_EQ(other.moved, other.planned);
      }
    }
  }
}

// Compares the norm of every step too, in layouts whose shards cut through the norm's granules.
TEST_P(CpuTraining, SeveralDevicesChangeNoBit) {
  const ModelGraph graph = small_gpt(GetParam());
  for (const u32 devices : {2u, 3u}) {
    PlanOptions options{.budgets = {roomy, roomy, roomy}, .micro_batches = devices, .home = HomePolicy::host};
    const Outcome one = train(graph, options);
    options.devices = devices;
    for (const HomePolicy home : {HomePolicy::device, HomePolicy::disk, HomePolicy::mixed})
      for (const u64 chunk_kib : {0, 40}) {
        options.home = home;
        options.chunk_bytes = Bytes{chunk_kib * kib};
        const Outcome several = train(graph, options);
        EXPECT_EQ(several.losses, one.losses);
        EXPECT_EQ(several.norms, one.norms);
        EXPECT_EQ(several.eval_loss, one.eval_loss);
        EXPECT_EQ(several.moved, several.planned);
        EXPECT_EQ(several.moved_between_devices, several.planned_between_devices);
        EXPECT_GT(several.moved_between_devices.value, 0u);
      }
  }
}

TEST_P(CpuTraining, LayersOverDevicesChangeNoBit) {
  const ModelGraph graph = small_gpt(GetParam());
  PlanOptions options{.budgets = {roomy, roomy, roomy}, .micro_batches = 4, .home = HomePolicy::host};
  const Outcome one = train(graph, options);
  options.parallel = Parallel::layers;
  for (const u32 devices : {2u, 3u})
    for (const HomePolicy home : {HomePolicy::device, HomePolicy::disk, HomePolicy::mixed})
      for (const u64 chunk_kib : {0, 40}) {
        options.devices = devices;
        options.home = home;
        options.chunk_bytes = Bytes{chunk_kib * kib};
        const Outcome several = train(graph, options);
        EXPECT_EQ(several.losses, one.losses);
        EXPECT_EQ(several.norms, one.norms);
        EXPECT_EQ(several.eval_loss, one.eval_loss);
        EXPECT_EQ(several.state, one.state);
        EXPECT_EQ(several.moved, several.planned);
        EXPECT_EQ(several.moved_between_devices.value, 0u);
      }
}

TEST_P(CpuTraining, RecoveredDiskFaultsChangeNoBit) {
  const ModelGraph graph = small_gpt(GetParam());
  PlanOptions options{
      .budgets = {roomy, roomy, roomy}, .home = HomePolicy::disk, .chunk_bytes = Bytes{64 * kib}};
  const Outcome calm = train(graph, options);
  CpuRigOptions rough;
  rough.faults.seed = 5;
  rough.faults.delay_us_max = 300;
  rough.faults[DiskFault::interrupted] = 0.1;
  rough.faults[DiskFault::again] = 0.1;
  rough.faults[DiskFault::short_transfer] = 0.1;
  const Outcome storm = train(graph, options, rough);
  EXPECT_TRUE(storm == calm);
  EXPECT_EQ(storm.moved, calm.moved);  // retries are not useful bytes
}

INSTANTIATE_TEST_SUITE_P(Trainings, CpuTraining, all_trainings(),
                         [](const auto& info) { return name(info.param); });

// By tensor: its parameters and the state of its rule.
std::vector<std::vector<std::byte>> state_by_tensor(const ModelGraph& graph, const Outcome& outcome) {
  std::vector<std::vector<std::byte>> out;
  const StateSlots& slots = graph.state_slots;
  u64 at = 0;
  for (const Kind kind : persistent_kinds(slots))
    for (const Window& window : graph.windows)
      for (const UpdateUnit& unit : update_units(graph, window)) {
        if (!slots.has(unit.rule, kind)) continue;
        for (const Tensor& tensor : window.tensors) {
          if (tensor.window_offset < unit.begin || tensor.window_offset >= unit.end()) continue;
          const SlotRange range = slot_range(window, slots.axis(kind), tensor);
          const u64 first = slot_range(window, slots.axis(kind), unit.begin, unit.end()).begin;
          const auto begin =
              outcome.state.begin() + static_cast<i64>(at + slots.bytes(kind, range.begin - first));
          out.emplace_back(begin, begin + static_cast<i64>(slots.bytes(kind, range.elements)));
        }
        at += slots.bytes(kind, slot_range(window, slots.axis(kind), unit.begin, unit.end()).elements);
      }
  EXPECT_EQ(at, outcome.state.size());
  return out;
}

TEST(CpuTrainingRules, TwoRulesOfOneKindGiveTheBitsOfOne) {
  const ModelGraph one = small_gpt(Precision::bf16);
  const auto of_layers = [](const Tensor& t) { return t.shape.size() > 1 && t.name.starts_with("h."); };
  const ModelGraph two =
      small_gpt(Precision::bf16, {{.unit = UnitKind::tensor, .takes = of_layers}, UpdateRule{}});
  ASSERT_GT(two.windows[2].elements, one.windows[2].elements);  // units are aligned
  const PlanOptions options{.budgets = {roomy, roomy, roomy}, .clipping = false};
  const auto want = state_by_tensor(one, train(one, options)),
             have = state_by_tensor(two, train(two, options));
  // Kinds stand in order of the rules: each tensor's state is compared by content.
  ASSERT_EQ(have.size(), want.size());
  std::vector<bool> found(want.size(), false);
  for (const auto& tensor : have) {
    u64 i = 0;
    while (i < want.size() && (found[i] || want[i] != tensor)) ++i;
    ASSERT_LT(i, want.size());
    found[i] = true;
  }
}

TEST(CpuTrainingPacked, PlacementChangesNoBit) {
  const ModelGraph graph = small_qwen3(true);
  PlanOptions options{.budgets = {roomy, roomy, roomy}, .micro_batches = 2, .home = HomePolicy::device};
  const Outcome resident = train(graph, options);
  EXPECT_NE(resident.losses, train(small_qwen3(false), options).losses);  // documents do not see each other
  for (const HomePolicy home : {HomePolicy::disk, HomePolicy::mixed})
    for (const RecomputePolicy recompute : {RecomputePolicy::keep, RecomputePolicy::recompute}) {
      options.home = home, options.recompute = recompute;
      options.sweeps = recompute == RecomputePolicy::keep ? 2 : 1;
      const Outcome other = train(graph, options);
      EXPECT_TRUE(other == resident) << static_cast<u32>(home);
      EXPECT_EQ(other.moved, other.planned);
    }
}

// Without overflows the tests above would prove little about fp16.
TEST(CpuTrainingFp16, SkipsTheStepsThatOverflow) {
  const ModelGraph graph = small_gpt(Precision::fp16);
  const Outcome outcome = train(graph, {.budgets = {roomy, roomy, roomy}, .micro_batches = 2});
  const std::vector<LossScale> expected = {{.scale = 0x1p14f, .skipped_steps = 1},
                                           {.scale = 0x1p14f, .good_steps = 1, .skipped_steps = 1},
                                           {.scale = 0x1p25f, .skipped_steps = 1},
                                           {.scale = 0x1p15f, .skipped_steps = 2}};
  EXPECT_EQ(outcome.scales, expected);
  EXPECT_FALSE(std::isfinite(outcome.norms[0]));
  EXPECT_TRUE(std::isfinite(outcome.norms[1]) && outcome.norms[1] < 100);
  EXPECT_EQ(steps, 4u);
}

}  // namespace tidepool::executor_training_test
