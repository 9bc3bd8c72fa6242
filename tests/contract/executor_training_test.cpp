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

namespace tidepool::executor_training_test {

using test::CpuRig;
using test::CpuRigOptions;
using test::HashedData;
using test::SegmentList;
using enum SegmentKind;

constexpr u64 steps = 4;
constexpr Bytes roomy{64 * mib};

// fp16: step 1 overflows, steps 2 and 3 do not and raise the scale, step 4 overflows.
constexpr float first_scale = 0x1p24f;
constexpr LossScaling scaling{.growth_factor = 0x1p11f, .backoff_factor = 0x1p-10f, .growth_interval = 2};

ModelGraph small_gpt(Precision precision) {
  ModelConfig config{.vocab_size = 97,
                     .positions = 32,
                     .width = 64,
                     .layers = 3,
                     .heads = 4,
                     .embedding_dropout = 0.1,
                     .residual_dropout = 0.1};
  return build_model(config, precision, {.sequences = 2, .tokens = 32}).value();
}

ModelGraph small_qwen3(bool packed) {
  ModelConfig config = default_model(Family::qwen3);
  config.vocab_size = 97, config.positions = 32, config.width = 64, config.layers = 3, config.heads = 4;
  config.kv_heads_given = 2, config.head_size_given = 24, config.inner_given = 96;
  return build_model(config, Precision::fp32, {.sequences = 2, .tokens = 32, .packed = packed}).value();
}

// Weights from a hash of their place: 0.05 at most; weights of norms are one.
float initial(const Tensor& tensor, u64 element) {
  if (tensor.init == Init::ones) return 1.0f;
  if (tensor.init == Init::zeros) return 0.0f;
  u64 z = (tensor.window_offset + element + tensor.name.size() * 7919) * 0x9e3779b97f4a7c15;
  z ^= z >> 29;
  z *= 0xbf58476d1ce4e5b9;
  return (static_cast<float>(z >> 40) / 16777216.0f - 0.5f) * 0.1f;
}

std::vector<float> initial_window(const Window& window) {
  std::vector<float> out(window.elements);
  for (const Tensor& tensor : window.tensors) {
    for (u64 i = 0; i < tensor.elements; ++i) out[tensor.window_offset + i] = initial(tensor, i);
  }
  return out;
}

std::vector<std::byte> initial_chunk(const Chunk& chunk, const ModelGraph& graph) {
  std::vector<std::byte> out(chunk.bytes.value);
  if (chunk.kind != Kind::param && chunk.kind != Kind::master) return out;  // bf16: drops the remainders
  const std::vector<float> all = initial_window(graph.windows[chunk.window]);
  for (u64 i = 0; i < chunk.elements; ++i) {
    const float x = all[chunk.element_begin + i];
    if (element_bytes(chunk.kind, graph.precision) == 4) {
      std::memcpy(&out[i * 4], &x, 4);
    } else {
      const u16 half = test::half_of(x, graph.precision);
      std::memcpy(&out[i * 2], &half, 2);
    }
  }
  return out;
}

// Results of a run, independent of chunks: all persistent bytes window by window, kind by kind.
struct Outcome {
  std::vector<double> losses, norms;
  std::vector<LossScale> scales;  // after each step
  double eval_loss = 0;
  std::vector<std::byte> state;
  std::array<Bytes, link_count> moved{};
  std::array<Bytes, link_count> planned{};
  Bytes moved_between_devices{}, planned_between_devices{};
  bool operator==(const Outcome& o) const {
    return losses == o.losses && norms == o.norms && scales == o.scales && eval_loss == o.eval_loss &&
           state == o.state;
  }
};

// Takes the result of each step when its norm has completed.
struct ResultTaker final : EngineObserver {
  ResultTaker(TrainingExecutor& executor, Outcome& outcome) : executor(executor), outcome(outcome) {}
  void completed(const Issue& issue, const Completion&) override {
    if (issue.get().kind != OpKind::norm) return;
    const StepResult result = executor.result(issue.step);
    outcome.losses.push_back(result.loss);
    outcome.norms.push_back(result.grad_norm);
    outcome.scales.push_back(result.next_loss_scale);
  }
  TrainingExecutor& executor;
  Outcome& outcome;
};

std::vector<std::byte> state_of(const Plan& plan, TrainingExecutor& executor) {
  std::vector<std::byte> all;
  for (const Kind kind : {Kind::param, Kind::master, Kind::master_low, Kind::momentum, Kind::variance}) {
    for (u32 i = 0; i < plan.chunks.size(); ++i) {
      if (plan.chunks[i].kind != kind) continue;
      std::vector<std::byte> content(plan.chunks[i].bytes.value);
      const auto read = executor.read_home(ChunkId{i}, content);
      EXPECT_TRUE(read) << read.error().message;
      all.insert(all.end(), content.begin(), content.end());
    }
  }
  return all;
}

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
  const EvalResult eval = rig.executor->take_eval();
  EXPECT_EQ(eval.target_tokens, 2 * graph.batch.rows() * options.micro_batches);
  outcome.eval_loss = eval.loss_sum / static_cast<double>(eval.target_tokens);
  outcome.state = state_of(*plan, *rig.executor);
  outcome.moved = rig.executor->moved();
  outcome.moved_between_devices = rig.executor->moved_between_devices();
  for (u32 i = 0; i < tier_count; ++i) {
    EXPECT_LE(rig.executor->high_water(static_cast<Tier>(i)), plan->tiers[i].planned_peak);
  }
  return outcome;
}

class CpuTraining : public ::testing::TestWithParam<Precision> {};

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

INSTANTIATE_TEST_SUITE_P(Precisions, CpuTraining,
                         ::testing::Values(Precision::fp32, Precision::bf16, Precision::fp16),
                         [](const auto& info) { return std::string(name(info.param)); });

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
