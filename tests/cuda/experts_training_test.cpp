// Trains whole models with experts on GPUs: losses are those of transformers, tokens choose the experts that
// they choose on the CPU, and neither placement nor the number of GPUs changes a bit.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <numeric>

#include "executor/cuda/cuda_devices.h"
#include "fit/job.h"
#include "huggingface/directory/hf_config.h"
#include "huggingface/weights/load_weights.h"
#include "inference/generate.h"
#include "probe/step/predict.h"
#include "session/session.h"
#include "tests/support/asked_plan.h"
#include "tests/support/family_cases.h"
#include "tests/support/golden_steps.h"
#include "tests/support/gpu_config.h"
#include "tests/support/gpu_precision.h"
#include "tests/support/placement.h"
#include "tests/support/places.h"
#include "tests/support/segments.h"

namespace tidepool::test::experts_training_test {

constexpr u64 steps = 6;
constexpr u32 sequences = 2, tokens_per_sequence = 20, rows = sequences * tokens_per_sequence;

struct Placing {
  HomePolicy home = HomePolicy::device;
  u32 experts_per_group = 0;
  RecomputePolicy recompute = RecomputePolicy::keep;
};

struct GoldenModel {
  const char* name;
  Placing placing;
  u32 micro_batches = 2;  // 1: the load-balancing loss of transformers is that of the whole batch
};

// Routing of one step.
struct Routed {
  RouterLosses losses;
  std::vector<i64> tokens;  // [layers with experts, E]
};

// Curve that also records routing.
struct RoutedCurve final : EngineObserver {
  explicit RoutedCurve(const StepResults& results) : results(results) {}
  void completed(const Issue& issue, const Completion&) override {
    if (issue.get().kind != OpKind::norm) return;
    const RoutingResult routing = results.routing(issue.step);
    losses.push_back(results.result(issue.step).loss);
    routed.push_back({routing.losses, {routing.tokens.begin(), routing.tokens.end()}});
  }
  const StepResults& results;
  std::vector<double> losses;
  std::vector<Routed> routed;
};

// PaddedSource leaves 13 tokens of each step's first micro-batch, and none of the second.
class PaddedSource final : public StepSource {
 public:
  static constexpr u32 tokens = 13;

  explicit PaddedSource(StepSource& whole) : whole_(whole) {}
  Result<void> load_batch(const BatchRequest& request, const BatchArrays& batch) override {
    TRY(whole_.load_batch(request, batch));
    const u32 kept = request.micro_batch == 0 ? tokens : 0;
    make_empty({batch.tokens.subspan(kept), batch.targets.subspan(kept), {}});
    return {};
  }
  StepSettings settings(u64 step) const override {
    StepSettings settings = whole_.settings(step);
    settings.target_tokens = tokens;
    return settings;
  }
  u32 empty_micro_batches(u64) const override { return 1; }

 private:
  StepSource& whole_;
};

class ExpertsOnGpus : public ::testing::Test {
 protected:
  static constexpr u32 gpus_max = 2;

  ExpertsOnGpus() { register_cuda(); }
  void SetUp() override {
    change_timing(0, gpus_max);
    if (gpus_here() == 0) GTEST_SKIP() << "no GPU here";
  }

  // devices: how many `executor` names.
  Config golden_config(const GoldenModel& model, const std::string& executor, u32 devices = 1) const {
    Config c;
    c.model_directory = family_directory(model.name);
    c.model = read_model_directory(c.model_directory).value();
    c.train.precision = Precision::fp32;
    c.train.per_device_train_batch_size = sequences / model.micro_batches;
    c.train.gradient_accumulation_steps = model.micro_batches / devices;
    c.train.sequence_length = tokens_per_sequence;
    c.train.recompute = model.placing.recompute;
    c.memory.budgets = {Bytes{128 * mib}, Bytes{64 * mib}, Bytes{256 * mib}};
    c.memory.home = model.placing.home;
    c.memory.experts_per_group = model.placing.experts_per_group;
    c.memory.swap_dir = dir_ / "swap";
    c.machine.executor = executor;
    c.machine.tune_products = false;
    c.machine.threads = 2;
    return c;
  }

  enum class Batches : u8 { whole, padded };

  // RETURNS: losses and routing of all steps; with padding, of the first.
  static std::pair<std::vector<double>, std::vector<Routed>> train(const Config& config,
                                                                   Batches batches = Batches::whole) {
    const Safetensors golden(config.model_directory + "/expected.safetensors");
    const Job job = make_job(config).value();
    GoldenSource whole(
        golden, rows,
        {.optimizer =
             {.learning_rate = 2e-3, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1},
         .max_grad_norm = 1.0});
    PaddedSource padded(whole);
    StepSource& source = batches == Batches::whole ? static_cast<StepSource&>(whole) : padded;
    auto plan = make_plan(job.graph, job.options);
    EXPECT_TRUE(plan) << plan.error().message;
    const auto session = Session::create(job, std::move(*plan), source);
    EXPECT_TRUE(session) << session.error().message;
    EXPECT_TRUE(load_weights(config.model_directory, job.graph, (*session)->state()));
    const auto engine = Engine::create((*session)->plan(), (*session)->executor(), {});
    SegmentList list(training_runs(batches == Batches::whole ? steps : 1, true));
    RoutedCurve curve((*session)->results());
    const auto ran = engine->run(list, curve);
    EXPECT_TRUE(ran) << ran.error().message;
    return {curve.losses, curve.routed};
  }

  const TrainDir dir_;
};

u64 moved_tokens(const std::vector<i64>& a, const std::vector<i64>& b) {
  u64 moved = 0;
  for (u64 i = 0; i < a.size(); ++i) moved += static_cast<u64>(std::abs(a[i] - b[i]));
  return moved;
}

// ---- against transformers and the CPU

class GoldenExperts : public ExpertsOnGpus, public ::testing::WithParamInterface<GoldenModel> {};

// After the first step, rounding may move a token that is near a tie.
TEST_P(GoldenExperts, LearnAsTransformersDoesAndRouteAsTheCpuDoes) {
  const GoldenModel& model = GetParam();
  const Config on_gpu = golden_config(model, "cuda");
  const auto [losses, routed] = train(on_gpu);
  const auto [cpu_losses, cpu_routed] = train(golden_config(model, "cpu"));
  const auto golden = Safetensors(on_gpu.model_directory + "/expected.safetensors").get<double>("losses");
  ASSERT_EQ(losses.size(), steps);
  ASSERT_EQ(routed.size(), steps);
  const Experts& experts = on_gpu.model.experts;
  for (u64 i = 0; i < steps; ++i) {
    SCOPED_TRACE(testing::Message() << "step " << i + 1);
    const RouterLosses &got = routed[i].losses, &want = cpu_routed[i].losses;
    const double router = experts.balance ? experts.balance_factor * got.balance : 0;
    EXPECT_NEAR(losses[i] + router, golden[i], 1e-3);
    EXPECT_NEAR(losses[i], cpu_losses[i], 2e-5);
    EXPECT_NEAR(got.balance, want.balance, 1e-4 * want.balance);
    EXPECT_NEAR(got.entropy, want.entropy, 1e-4 * want.entropy);
    EXPECT_NEAR(got.z, want.z, 1e-4 * want.z);
    ASSERT_EQ(routed[i].tokens.size(), cpu_routed[i].tokens.size());
    EXPECT_LE(moved_tokens(routed[i].tokens, cpu_routed[i].tokens), i == 0 ? 0u : 4u);
    const i64 chosen = std::accumulate(routed[i].tokens.begin(), routed[i].tokens.end(), i64{0});
    EXPECT_EQ(u64(chosen) % (rows * experts.chosen), 0u) << "each layer gives every token its experts";
    EXPECT_GT(chosen, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, GoldenExperts,
    ::testing::Values(GoldenModel{"qwen3_moe_tied_losses", {HomePolicy::host, 3}, 1},
                      GoldenModel{"mixtral_untied", {HomePolicy::device, 0}},
                      GoldenModel{
                          "mixtral_tied_losses", {HomePolicy::mixed, 2, RecomputePolicy::recompute}, 1},
                      GoldenModel{"gpt_oss_untied", {HomePolicy::disk, 2, RecomputePolicy::recompute}},
                      GoldenModel{"deepseek_v3_untied", {HomePolicy::disk, 1, RecomputePolicy::recompute}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_F(ExpertsOnGpus, PaddingIsNoTokenOfARouter) {
  const GoldenModel model = {"qwen3_moe_tied_losses", {HomePolicy::host, 3, RecomputePolicy::recompute}};
  const Config on_gpu = golden_config(model, "cuda");
  const auto [losses, routed] = train(on_gpu, Batches::padded);
  const auto [cpu_losses, cpu_routed] = train(golden_config(model, "cpu"), Batches::padded);
  ASSERT_EQ(routed.size(), 1u);
  ASSERT_EQ(cpu_routed.size(), 1u);
  EXPECT_NEAR(losses[0], cpu_losses[0], 2e-5);
  EXPECT_EQ(routed[0].tokens, cpu_routed[0].tokens);
  for (const auto part : {&RouterLosses::balance, &RouterLosses::z, &RouterLosses::entropy})
    EXPECT_NEAR(routed[0].losses.*part, cpu_routed[0].losses.*part, 1e-4 * cpu_routed[0].losses.*part);
  u32 layers = 0;
  for (u32 layer = 0; layer < on_gpu.model.layers; ++layer) layers += on_gpu.model.has_experts(layer);
  EXPECT_EQ(std::accumulate(routed[0].tokens.begin(), routed[0].tokens.end(), i64{0}),
            i64{layers} * PaddedSource::tokens * on_gpu.model.experts.chosen);
  if (gpus_here() < 2) return;
  const auto [two_losses, two] = train(golden_config(model, first_gpus(2), 2), Batches::padded);
  EXPECT_EQ(two_losses, losses);
  ASSERT_EQ(two.size(), 1u);
  EXPECT_EQ(two[0].tokens, routed[0].tokens);
  EXPECT_EQ(two[0].losses.balance, routed[0].losses.balance);
}

// ---- placement

TEST_F(ExpertsOnGpus, TwoGpusGiveTheBitsAndTheRoutingOfOne) {
  if (gpus_here() < 2) GTEST_SKIP() << "two GPUs are needed";
  for (const GoldenModel& model : {GoldenModel{"qwen3_moe_tied_losses", {HomePolicy::host, 3}},
                                   GoldenModel{"deepseek_v3_untied", {HomePolicy::device, 2}}}) {
    SCOPED_TRACE(model.name);
    const auto [one_losses, one] = train(golden_config(model, "cuda"));
    for (const Parallel parallel : {Parallel::data, Parallel::layers}) {
      SCOPED_TRACE(name(parallel));
      Config config = golden_config(model, first_gpus(2), 2);
      config.machine.parallel = parallel;
      const auto [two_losses, two] = train(config);
      EXPECT_EQ(two_losses, one_losses);
      ASSERT_EQ(two.size(), one.size());
      for (u64 i = 0; i < one.size(); ++i) {
        EXPECT_EQ(two[i].tokens, one[i].tokens) << "step " << i + 1;
        EXPECT_EQ(two[i].losses.balance, one[i].losses.balance);
        EXPECT_EQ(two[i].losses.z, one[i].losses.z);
        EXPECT_EQ(two[i].losses.entropy, one[i].losses.entropy);
      }
    }
  }
}

struct SmallModel {
  Family family;
  Precision precision;
};

class PlacedExperts : public ExpertsOnGpus, public ::testing::WithParamInterface<SmallModel> {};

TEST_P(PlacedExperts, PlacementAndGroupSizeChangeNoBit) {
  if (!gpu_multiplies(GetParam().precision)) GTEST_SKIP() << "this GPU does not multiply bf16";
  Config base = gpu_config(dir_, GetParam().precision);
  base.model = small_model(GetParam().family);
  base.model.layers = 2;
  base.train.max_steps = 2;
  base.memory.budgets = {Bytes{128 * mib}, Bytes{64 * mib}, Bytes{256 * mib}};
  std::optional<Numbers> first;
  u64 seed = 0;
  for (const Placing& placing : {Placing{HomePolicy::device, 8}, Placing{HomePolicy::host, 1},
                                 Placing{HomePolicy::disk, 3, RecomputePolicy::recompute},
                                 Placing{HomePolicy::mixed, 0, RecomputePolicy::recompute}}) {
    Config config = base;
    config.memory.home = placing.home;
    config.memory.experts_per_group = placing.experts_per_group;
    config.train.recompute = placing.recompute;
    SCOPED_TRACE(how_to_repeat(config));
    change_timing(seed++);
    const auto report = run(config);
    ASSERT_TRUE(report) << report.error().message;
    if (!first) first = numbers_of(*report);
    EXPECT_EQ(numbers_of(*report), *first);
    check_bytes(*report);
    std::filesystem::remove_all(config.output.dir);
  }
}

TEST_P(PlacedExperts, PiecesOfSequencesChangeNoBit) {
  if (!gpu_multiplies(GetParam().precision)) GTEST_SKIP() << "this GPU does not multiply bf16";
  Config base = gpu_config(dir_, GetParam().precision);
  base.model = small_model(GetParam().family);
  base.model.layers = 2;
  base.train.max_steps = 1;
  base.train.tile_tokens = 6;  // of 16
  base.memory.budgets = {Bytes{128 * mib}, Bytes{64 * mib}, Bytes{256 * mib}};
  std::optional<Numbers> first;
  std::optional<ExpertUse> experts;
  u64 seed = 0;
  for (const u64 piece : {16, 6, 12}) {
    Config config = base;
    config.memory.piece_tokens = piece;
    config.memory.home = piece == 16 ? HomePolicy::device : HomePolicy::host;
    config.memory.experts_per_group = piece == 12 ? 0 : 3;
    config.train.recompute = piece == 6 ? RecomputePolicy::keep : RecomputePolicy::recompute;
    SCOPED_TRACE(how_to_repeat(config));
    change_timing(seed++);
    const auto report = run(config);
    ASSERT_TRUE(report) << report.error().message;
    if (!first) first = numbers_of(*report), experts = report->experts;
    EXPECT_EQ(numbers_of(*report), *first);
    EXPECT_EQ(report->experts, experts);
    EXPECT_EQ(report->experts->dropped, 0u);
    check_bytes(*report);
    std::filesystem::remove_all(config.output.dir);
  }
  base.machine.executor = "cpu";
  base.output.dir = dir_ / "cpu";
  const Numbers cpu = train_numbers(base);
  ASSERT_EQ(first->losses.size(), cpu.losses.size());
  for (u64 i = 0; i < cpu.losses.size(); ++i) EXPECT_NEAR(first->losses[i], cpu.losses[i], 3e-2) << i;
}

std::string small_name(const ::testing::TestParamInfo<SmallModel>& info) {
  return fmt::format("{}_{}", name(info.param.family), name(info.param.precision));
}
INSTANTIATE_TEST_SUITE_P(Models, PlacedExperts,
                         ::testing::Values(SmallModel{Family::qwen3_moe, Precision::bf16},
                                           SmallModel{Family::mixtral, Precision::fp16},
                                           SmallModel{Family::gpt_oss, Precision::bf16},
                                           SmallModel{Family::deepseek_v3, Precision::bf16}),
                         small_name);

// ---- beside training

TEST_F(ExpertsOnGpus, ResumeWithAnotherGroupSizeAndWriteText) {
  Config config = gpu_config(dir_, Precision::fp32, "whole");
  config.model = small_model(Family::deepseek_v3);
  config.model.layers = 2;
  config.train.max_steps = 2;
  config.memory.budgets = {Bytes{128 * mib}, Bytes{64 * mib}, Bytes{256 * mib}};
  config.memory.home = HomePolicy::device;
  const Numbers whole = train_numbers(config);
  config.output.dir = dir_ / "parts";
  const auto stopped = run(config, {.stop_after = 1});
  ASSERT_FALSE(stopped);
  ASSERT_EQ(stopped.error().kind, ErrorKind::interrupted) << stopped.error().message;
  config.memory.home = HomePolicy::host;
  config.memory.experts_per_group = 3;
  EXPECT_EQ(train_numbers(config, {.resume = "auto"}), whole);
  std::string text;
  const auto generated = generate_text(
      {.path = config.output.dir, .generate = {.prompt = "the ", .max_new_tokens = 2, .temperature = 0}},
      [&](std::string_view bytes) { text += bytes; });
  ASSERT_TRUE(generated) << generated.error().message;
  EXPECT_GE(text.size(), 4u);
}

// Packed experts are unpacked on the device before a block reads them.
TEST_F(ExpertsOnGpus, AdaptersLearnBesidePackedExpertsAsOnTheCpu) {
  for (const char* base : {"qwen3_moe_fp8", "gpt_oss_mxfp4", "deepseek_v3_fp8"}) {
    SCOPED_TRACE(base);
    Config config = small_config(dir_);
    config.model_directory = source_file("tests/golden/packed_models/") + base;
    config.model = read_model_directory(config.model_directory).value();
    config.data.train = {token_file(dir_)};
    config.lora = {.r = 4, .alpha = 16, .target_modules = {"o_proj"}};
    config.train.max_steps = 2;
    config.train.gradient_accumulation_steps = 2;
    config.train.learning_rate = 2e-2;
    config.memory.budgets = {Bytes{128 * mib}, Bytes{64 * mib}, Bytes{256 * mib}};
    config.memory.home = HomePolicy::host;
    config.machine.executor = "cuda";
    config.machine.tune_products = false;
    const Numbers gpu = train_numbers(config);
    config.machine.executor = "cpu";
    config.output.dir += "-cpu";
    const Numbers cpu = train_numbers(config);
    ASSERT_EQ(gpu.losses.size(), 2u);
    for (u64 i = 0; i < gpu.losses.size(); ++i) EXPECT_NEAR(gpu.losses[i], cpu.losses[i], 2e-4) << i;
    std::filesystem::remove_all(dir_ / "run");
    std::filesystem::remove_all(dir_ / "run-cpu");
  }
}

TEST_F(ExpertsOnGpus, StepsArePredicted) {
  const Config config = golden_config({"gpt_oss_untied", {HomePolicy::host, 2}}, "cuda");
  const Safetensors golden(config.model_directory + "/expected.safetensors");
  const Job job = make_job(config).value();
  GoldenSource source(golden, rows, {});
  const auto session = Session::create(job, make_plan(job.graph, job.options).value(), source).value();
  const auto prediction = predict_step(*session);
  EXPECT_TRUE(prediction) << prediction.error().message;
}

// The ops of each device find valid routes.
TEST_F(ExpertsOnGpus, StepsWithLayersOverGpusArePredicted) {
  if (gpus_here() < 2) GTEST_SKIP() << "two GPUs are needed";
  Config config = golden_config({"mixtral_untied", {HomePolicy::device, 1}}, first_gpus(2), 2);
  config.machine.parallel = Parallel::layers;
  const Safetensors golden(config.model_directory + "/expected.safetensors");
  const Job job = make_job(config).value();
  GoldenSource source(golden, rows, {});
  const auto session = Session::create(job, make_plan(job.graph, job.options).value(), source).value();
  const auto prediction = predict_step(*session, {}, shortest_sampling);
  EXPECT_TRUE(prediction) << prediction.error().message;
}

#ifdef CUDA_EMULATED
// Counts stay on the device during a step: the host waits for ops as in a dense model, and takes nothing
// beside the step's numbers.
TEST_F(ExpertsOnGpus, StepsAllocateAndSynchronizeNothing) {
  const Config config = golden_config({"qwen3_moe_tied_losses", {HomePolicy::device, 3}}, "cuda");
  const Safetensors golden(config.model_directory + "/expected.safetensors");
  const Job job = make_job(config).value();
  GoldenSource source(golden, rows, {});
  const auto session = Session::create(job, make_plan(job.graph, job.options).value(), source).value();
  const auto engine = Engine::create(session->plan(), session->executor(), {});
  const emulated_cuda::Live before = emulated_cuda::live();
  emulated_cuda::clear_calls();
  SegmentList list(training_runs(3, true));
  RoutedCurve curve(session->results());
  ASSERT_TRUE(engine->run(list, curve));
  EXPECT_EQ(emulated_cuda::live(), before);
  using emulated_cuda::CallKind;
  u64 copies_of_routing = 0;
  const std::size_t tokens = curve.routed.front().tokens.size() * sizeof(i64);
  for (const emulated_cuda::Call& call : emulated_cuda::calls()) {
    EXPECT_NE(call.kind, CallKind::stream_synchronize);
    EXPECT_NE(call.kind, CallKind::device_synchronize);
    copies_of_routing += call.kind == CallKind::copy && call.bytes == tokens;
  }
  EXPECT_EQ(copies_of_routing, 3u) << "one per step";
}
#endif

}  // namespace tidepool::test::experts_training_test
