// Whole training runs on a GPU: numbers depend neither on placement nor on the timing of streams.
#include <gtest/gtest.h>

#include <filesystem>

#include "executor/cuda/cuda_devices.h"
#include "inference/generate.h"
#include "tests/support/gpu_config.h"
#include "tests/support/gpu_precision.h"
#include "tests/support/lora_fixture.h"
#include "tests/support/placement.h"

namespace tidepool::training_test {

using test::change_timing;
using test::gpu_config;
using test::how_to_repeat;
using test::Numbers;
using test::numbers_of;
using test::Row;
using test::train_numbers;
using test::TrainDir;

class CudaTraining : public ::testing::TestWithParam<Precision> {
 protected:
  CudaTraining() { register_cuda(); }
  void SetUp() override {
    change_timing(0);
    if (test::gpus_here() == 0) GTEST_SKIP() << "no GPU here";
    if (!test::gpu_multiplies(GetParam())) GTEST_SKIP() << "this GPU does not multiply bf16";
  }

  const TrainDir dir_;
};

class CudaTrainingInHalves : public CudaTraining {};

TEST_P(CudaTraining, LearnsAsTheCpuDoes) {
  Config config = gpu_config(dir_, GetParam());
  config.train.init_scale = 65536;
  const Numbers gpu = train_numbers(config);
  config.machine.executor = "cpu";  // with activations in fp32
  config.output.dir = dir_ / "cpu";
  const Numbers cpu = train_numbers(config);
  const double tolerance = GetParam() == Precision::fp32 ? 2e-4 : 3e-2;
  ASSERT_EQ(gpu.losses.size(), 3u);
  ASSERT_EQ(gpu.eval_losses.size(), cpu.eval_losses.size());
  EXPECT_LT(gpu.losses.back(), gpu.losses.front());
  for (u64 i = 0; i < gpu.losses.size(); ++i) EXPECT_NEAR(gpu.losses[i], cpu.losses[i], tolerance) << i;
  for (u64 i = 0; i < gpu.eval_losses.size(); ++i)
    EXPECT_NEAR(gpu.eval_losses[i], cpu.eval_losses[i], tolerance) << i;
}

TEST_P(CudaTraining, PlacementChangesNoBit) {
  for (const double max_grad_norm : {0.5, 0.0}) {
    Config base = gpu_config(dir_, GetParam());
    base.train.max_grad_norm = max_grad_norm;
    base.model.embedding_dropout = base.model.attention.dropout = base.model.residual_dropout = 0.1;
    std::optional<Numbers> first;
    u64 seed = 0;
    for (const Row& row : test::placement_rows(2)) {
      const Config config = test::placed(row, base);
      SCOPED_TRACE(how_to_repeat(config));
      change_timing(seed++);
      const auto report = test::run(config);
      ASSERT_TRUE(report) << report.error().message;
      if (!first) first = numbers_of(*report);
      EXPECT_EQ(numbers_of(*report), *first);
      test::check_bytes(*report);
      std::filesystem::remove_all(config.output.dir);
    }
  }
}

// Tiles of 5 tokens, of which ops compute all, two or one. They learn as the CPU's do.
void expect_pieces_change_no_bit(Config base, const std::string& cpu_dir) {
  base.train.tile_tokens = 5;
  base.train.per_device_train_batch_size = 2;
  std::optional<Numbers> first;
  u64 seed = 0;
  for (const u64 piece : {40, 10, 5}) {
    Config config = base;
    config.memory.piece_tokens = piece;
    config.memory.home = piece == 10 ? HomePolicy::device : HomePolicy::host;
    config.train.recompute = piece == 10 ? RecomputePolicy::keep : RecomputePolicy::recompute;
    SCOPED_TRACE(how_to_repeat(config));
    change_timing(seed++);
    const auto report = test::run(config);
    ASSERT_TRUE(report) << report.error().message;
    if (!first) first = numbers_of(*report);
    EXPECT_EQ(numbers_of(*report), *first);
    test::check_bytes(*report);
    std::filesystem::remove_all(config.output.dir);
  }
  const double tolerance = base.train.precision == Precision::fp32 ? 2e-4 : 3e-2;
  base.machine.executor = "cpu";
  base.output.dir = cpu_dir;
  const Numbers cpu = train_numbers(base);
  ASSERT_EQ(first->losses.size(), cpu.losses.size());
  for (u64 i = 0; i < cpu.losses.size(); ++i) EXPECT_NEAR(first->losses[i], cpu.losses[i], tolerance) << i;
}

TEST_P(CudaTraining, PiecesOfSequencesChangeNoBit) {
  expect_pieces_change_no_bit(gpu_config(dir_, GetParam()), dir_ / "cpu");
}

TEST_P(CudaTraining, PiecesOfRecurrentLayersChangeNoBit) {
  const bool mamba = GetParam() == Precision::fp16;
  Config config = gpu_config(dir_, GetParam());
  config.model = test::small_model(mamba ? Family::nemotron_h : Family::qwen3_5_text);
  config.train.max_steps = 1;
  config.memory.budgets = {Bytes{128 * mib}, Bytes{64 * mib}, Bytes{256 * mib}};
  expect_pieces_change_no_bit(std::move(config), dir_ / "cpu");
}

// Sequences long enough for a library's attention, whose scratch lies in the memory of the MLP's gradient.
TEST_P(CudaTrainingInHalves, AttentionByALibraryChangesNoBitWithPlacement) {
  Config base = gpu_config(dir_, GetParam());
  base.model.positions = base.train.sequence_length = 128;
  base.train.per_device_train_batch_size = 2;
  base.train.max_steps = 2;
  base.memory.budgets.device = Bytes{96 * mib};
  std::optional<Numbers> first;
  u64 seed = 0;
  for (const RecomputePolicy recompute : {RecomputePolicy::recompute, RecomputePolicy::keep}) {
    for (const HomePolicy home : {HomePolicy::device, HomePolicy::host}) {
      Config config = base;
      config.train.recompute = recompute;
      config.memory.home = home;
      change_timing(seed++);
      test::load_cudnn();
      const auto report = test::run(config);
      ASSERT_TRUE(report) << report.error().message;
#ifdef CUDA_EMULATED
      const auto calls = emulated_cuda::calls();
      EXPECT_GT(std::ranges::count(calls, emulated_cuda::CallKind::attention, &emulated_cuda::Call::kind), 0);
#endif
      if (!first) first = numbers_of(*report);
      EXPECT_EQ(numbers_of(*report), *first);
      std::filesystem::remove_all(config.output.dir);
    }
  }
}

// State at home on the device goes to checkpoints and comes back, also with another placement.
TEST_P(CudaTraining, ResumesWithAnotherPlacement) {
  Config config = gpu_config(dir_, GetParam(), "whole");
  config.memory.home = HomePolicy::device;
  const Numbers whole = train_numbers(config);
  config.output.dir = dir_ / "parts";
  const auto stopped = test::run(config, {.stop_after = 1});
  ASSERT_FALSE(stopped);
  ASSERT_EQ(stopped.error().kind, ErrorKind::interrupted) << stopped.error().message;
  config.memory.home = HomePolicy::host;
  EXPECT_EQ(train_numbers(config, {.resume = "auto"}), whole);
}

// Text is generated on the run's device.
TEST_P(CudaTraining, WritesText) {
  const Config config = gpu_config(dir_, GetParam());
  ASSERT_TRUE(test::run(config));
  std::string text;
  std::vector<std::string> notes;
  const auto generated = generate_text({.path = config.output.dir,
                                        .generate = {.prompt = "the ", .max_new_tokens = 3, .temperature = 0},
                                        .note = [&](const std::string& line) { notes.push_back(line); }},
                                       [&](std::string_view bytes) { text += bytes; });
  ASSERT_TRUE(generated) << generated.error().message;
  EXPECT_GE(text.size(), 4u);
  EXPECT_TRUE(notes.empty()) << notes[0];
}

// The copies of rows have sizes that only the tokens decide.
TEST_P(CudaTraining, RowsOfATableGiveTheNumbersOfTheTable) {
  const std::string base = test::made_base(dir_, Family::llama);
  std::optional<Numbers> whole;
  for (const LookupPolicy lookup : {LookupPolicy::off, LookupPolicy::on})
    for (const HomePolicy home : {HomePolicy::host, HomePolicy::disk}) {
      change_timing(home == HomePolicy::host ? 1 : 2);
      Config config = gpu_config(dir_, GetParam());
      config.model = test::small_model(Family::llama);
      config = test::lora_config(std::move(config), base);
      config.memory.home = home, config.memory.lookup = lookup;
      SCOPED_TRACE(how_to_repeat(config));
      const auto report = test::run(config);
      ASSERT_TRUE(report) << report.error().message;
      test::check_bytes(*report);
      const Numbers numbers = numbers_of(*report);
      if (!whole) whole = numbers;
      EXPECT_EQ(numbers, *whole);
      std::filesystem::remove_all(config.output.dir);
    }
}

std::string precision_of(const ::testing::TestParamInfo<Precision>& info) {
  return std::string(name(info.param));
}
INSTANTIATE_TEST_SUITE_P(Precisions, CudaTraining,
                         ::testing::Values(Precision::fp32, Precision::bf16, Precision::fp16), precision_of);
INSTANTIATE_TEST_SUITE_P(Precisions, CudaTrainingInHalves,
                         ::testing::Values(Precision::bf16, Precision::fp16), precision_of);

}  // namespace tidepool::training_test
