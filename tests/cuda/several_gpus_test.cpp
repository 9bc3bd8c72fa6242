// Whole training runs on several GPUs: they give the bits of one GPU that accumulates as many micro-batches,
// for any placement.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>

#include "executor/cuda/cuda_devices.h"
#include "tests/support/gpu_config.h"
#include "tests/support/gpu_precision.h"
#include "tests/support/placement.h"

namespace tidepool {
namespace {

using test::change_timing;
using test::first_gpus;
using test::gpu_config;
using test::how_to_repeat;
using test::Numbers;
using test::numbers_of;
using test::train_numbers;
using test::TrainDir;

class SeveralGpus : public ::testing::Test {
 protected:
  static constexpr u32 most = 3;

  SeveralGpus() { register_cuda(); }
  void SetUp() override {
    change_timing(0, most);
    gpus_ = std::min(most, test::gpus_here());
    if (gpus_ < 2) GTEST_SKIP() << "two GPUs are needed";
  }
  static void check_comm(const RunReport& report) {
    ASSERT_TRUE(report.comm);
    EXPECT_EQ(report.comm->measured, report.comm->planned);
    EXPECT_GT(report.comm->measured.value, 0u);
  }

  // RETURNS: a 16-bit precision, for tests where either will do.
  static Precision half() {
    return test::gpu_multiplies(Precision::bf16) ? Precision::bf16 : Precision::fp16;
  }

  u32 gpus_ = 0;
  const TrainDir dir_;
};

struct Setting {
  Precision precision{};
  bool clipping = true;
  double dropout = 0;
  HomePolicy home{};
  u32 width = 64;  // from 128 on, one device owns whole granules of the norm in a layer
};

std::string setting_name(const ::testing::TestParamInfo<Setting>& info) {
  constexpr const char* homes[] = {"auto", "device", "host", "disk", "mixed"};
  return fmt::format("{}_{}_{}", info.param.precision == Precision::fp32 ? "fp32" : "bf16",
                     info.param.clipping ? "clipped" : "unclipped", homes[static_cast<u32>(info.param.home)]);
}

class SeveralGpusSettings : public SeveralGpus, public ::testing::WithParamInterface<Setting> {
 protected:
  void SetUp() override {
    SeveralGpus::SetUp();
    if (!test::gpu_multiplies(GetParam().precision)) GTEST_SKIP() << "these GPUs do not multiply bf16";
  }
  Config config(u32 devices, u32 accumulation) const {
    const Setting& s = GetParam();
    Config c = gpu_config(dir_, s.precision, fmt::format("run-{}-{}", devices, accumulation));
    c.model.width = s.width;
    c.train.max_grad_norm = s.clipping ? 0.5 : 0.0;
    c.model.embedding_dropout = c.model.attention_dropout = c.model.residual_dropout = s.dropout;
    c.memory.home = s.home;
    c.memory.chunk_size = Bytes{40 * kib};
    c.machine.executor = first_gpus(devices);
    c.train.gradient_accumulation_steps = accumulation;
    return c;
  }
};

TEST_P(SeveralGpusSettings, WithOneMicroBatchEachAreOneThatAccumulates) {
  for (u32 count = 2; count <= gpus_; ++count) {
    change_timing(count, most);
    const Numbers expected = train_numbers(config(1, count));
    change_timing(count + GetParam().width, most);
    const Config several = config(count, 1);
    SCOPED_TRACE(how_to_repeat(several));
    const auto report = test::run(several);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(numbers_of(*report), expected);
    test::check_bytes(*report);
    check_comm(*report);
  }
}

INSTANTIATE_TEST_SUITE_P(Settings, SeveralGpusSettings,
                         ::testing::Values(Setting{Precision::fp32, true, 0.0, HomePolicy::automatic, 128},
                                           Setting{Precision::fp32, true, 0.1, HomePolicy::host},
                                           Setting{Precision::fp32, false, 0.0, HomePolicy::device},
                                           Setting{Precision::bf16, true, 0.1, HomePolicy::disk},
                                           Setting{Precision::bf16, true, 0.0, HomePolicy::device, 128},
                                           Setting{Precision::bf16, false, 0.1, HomePolicy::mixed}),
                         setting_name);

// With layers over GPUs sums are those of one GPU with as many micro-batches, and nothing is exchanged.
TEST_P(SeveralGpusSettings, WithLayersOverThemAreOneThatAccumulates) {
  constexpr u32 micro_batches = 6;
  change_timing(1, most);
  const Numbers expected = train_numbers(config(1, micro_batches));
  for (u32 count = 2; count <= gpus_; ++count) {
    change_timing(count + GetParam().width, most);
    Config several = config(count, micro_batches / count);
    several.machine.parallel = Parallel::layers;
    SCOPED_TRACE(how_to_repeat(several));
    const auto report = test::run(several);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(numbers_of(*report), expected);
    test::check_bytes(*report);
    EXPECT_FALSE(report->comm);
  }
}

TEST_F(SeveralGpus, PlacementChangesNoBit) {
  Config base = gpu_config(dir_, half());
  base.machine.executor = first_gpus(2);
  base.model.embedding_dropout = base.model.attention_dropout = base.model.residual_dropout = 0.1;
  std::optional<Numbers> first;
  u64 seed = 0;
  for (const test::Row& row : test::covering_array(test::placement_levels(2))) {
    const Config config = test::placed(row, base);
    SCOPED_TRACE(how_to_repeat(config));
    change_timing(seed++, most);
    const auto report = test::run(config);
    ASSERT_TRUE(report) << report.error().message;
    if (!first) first = numbers_of(*report);
    EXPECT_EQ(numbers_of(*report), *first);
    test::check_bytes(*report);
    check_comm(*report);
    std::filesystem::remove_all(config.output.dir);
  }
}

TEST_F(SeveralGpus, LearnAsTheCpuDoes) {
  Config config = gpu_config(dir_, Precision::fp32);
  config.machine.executor = first_gpus(gpus_);
  const Numbers gpus = train_numbers(config);
  config.machine.executor = fmt::format("cpu:{}", gpus_);
  config.output.dir = dir_ / "cpu";
  const Numbers cpu = train_numbers(config);
  ASSERT_EQ(gpus.losses.size(), cpu.losses.size());
  ASSERT_EQ(gpus.eval_losses.size(), cpu.eval_losses.size());
  for (u64 i = 0; i < gpus.losses.size(); ++i) EXPECT_NEAR(gpus.losses[i], cpu.losses[i], 2e-4) << i;
  for (u64 i = 0; i < gpus.eval_losses.size(); ++i)
    EXPECT_NEAR(gpus.eval_losses[i], cpu.eval_losses[i], 2e-4) << i;
}

// GPUs may be named in any order: a plan numbers devices itself, and their state goes to checkpoints and
// back.
TEST_F(SeveralGpus, ACheckpointOfOneResumesOnTwo) {
  Config two = gpu_config(dir_, half(), "whole");
  two.memory.home = HomePolicy::device;
  two.machine.executor = fmt::format("cuda:{},0", gpus_ - 1);
  two.train.gradient_accumulation_steps = 1;
  const Numbers expected = train_numbers(two);
  Config one = two;
  one.machine.executor = "cuda:0";
  one.train.gradient_accumulation_steps = 2;
  one.output.dir = dir_ / "resumed";
  const auto stopped = test::run(one, {.stop_after = 1});
  ASSERT_FALSE(stopped);
  ASSERT_EQ(stopped.error().kind, ErrorKind::interrupted) << stopped.error().message;
  two.output.dir = one.output.dir;
  EXPECT_EQ(train_numbers(two, {.resume = "auto"}), expected);
}

}  // namespace
}  // namespace tidepool
