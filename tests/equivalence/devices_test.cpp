// Several devices change no number: N devices with one micro-batch each give the bits of one device that
// accumulates N, for every placement (placement_test has groups of two devices).
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "fit/job.h"
#include "planner/planner.h"
#include "tests/support/asked_plan.h"
#include "tests/support/train_fixture.h"

namespace tidepool::devices_test {

using test::how_to_repeat;
using test::Numbers;
using test::numbers_of;
using test::TrainDir;

struct Setting {
  Precision precision{};
  bool clipping = true;
  double dropout = 0;
  HomePolicy home{};
};

std::string setting_name(const ::testing::TestParamInfo<Setting>& info) {
  constexpr const char* homes[] = {"auto", "device", "host", "disk", "mixed"};
  return fmt::format("{}_{}_{}", name(info.param.precision), info.param.clipping ? "clipped" : "unclipped",
                     homes[static_cast<u32>(info.param.home)]);
}

Config setting_config(const Setting& setting, const TrainDir& dir, u32 devices, u32 accumulation) {
  Config c = test::small_config(dir, fmt::format("run-{}-{}", devices, accumulation));
  c.train.precision = setting.precision;
  if (setting.precision == Precision::fp16) test::make_fp16_that_overflows(c);
  c.train.max_grad_norm = setting.clipping ? 0.5 : 0.0;
  c.model.embedding_dropout = c.model.attention.dropout = c.model.residual_dropout = setting.dropout;
  c.memory.home = setting.home;
  c.memory.chunk_size = Bytes{40 * kib};
  c.machine.executor = fmt::format("cpu:{}", devices);
  c.train.gradient_accumulation_steps = accumulation;
  return c;
}

class Devices : public ::testing::TestWithParam<Setting> {};

TEST_P(Devices, WithOneMicroBatchEachAreOneDeviceThatAccumulates) {
  const TrainDir dir;
  for (const u32 count : {2u, 3u, 4u}) {
    const Config one = setting_config(GetParam(), dir, 1, count),
                 several = setting_config(GetParam(), dir, count, 1);
    const Numbers expected = test::train_numbers(one);
    SCOPED_TRACE(how_to_repeat(several));
    const auto report = test::run(several);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(numbers_of(*report), expected);
    for (u32 l = 0; l < link_count; ++l)
      EXPECT_EQ(report->links[l].measured, report->links[l].planned) << name(static_cast<LinkKind>(l));
    ASSERT_TRUE(report->comm);
    EXPECT_EQ(report->comm->measured, report->comm->planned);
    EXPECT_GT(report->comm->measured.value, 0u);
    EXPECT_LE(report->tiers[0].measured_peak, report->tiers[0].planned_peak);
  }
}

INSTANTIATE_TEST_SUITE_P(Settings, Devices,
                         ::testing::Values(Setting{Precision::fp32, true, 0.0, HomePolicy::automatic},
                                           Setting{Precision::fp32, true, 0.1, HomePolicy::host},
                                           Setting{Precision::fp32, false, 0.0, HomePolicy::device},
                                           Setting{Precision::bf16, true, 0.1, HomePolicy::disk},
                                           Setting{Precision::bf16, true, 0.0, HomePolicy::device},
                                           Setting{Precision::bf16, false, 0.1, HomePolicy::mixed},
                                           Setting{Precision::fp16, true, 0.1, HomePolicy::disk},
                                           Setting{Precision::fp16, false, 0.0, HomePolicy::device}),
                         setting_name);

// A layer with experts and shared experts also has one gradient per micro-batch.
TEST(Devices, WithExpertsAreOneDeviceThatAccumulates) {
  const TrainDir dir;
  for (const Family family : {Family::qwen3_moe, Family::gpt_oss, Family::deepseek_v3}) {
    const auto config = [&](u32 devices, u32 accumulation) {
      Config c = setting_config({Precision::fp32, true, 0.0, HomePolicy::host}, dir, devices, accumulation);
      c.model = test::small_model(family);
      c.memory.budgets = {Bytes{64 * mib}, Bytes{64 * mib}, Bytes{256 * mib}};
      c.output.dir += name(family);
      return c;
    };
    const Config several = config(2, 1);
    EXPECT_EQ(test::train_numbers(several), test::train_numbers(config(1, 2))) << how_to_repeat(several);
  }
}

// Uses the smallest host memory that fits: the rest of the state is at home on the devices, as shards.
TEST(Devices, StateMovedOutOfTheHostChangesNoBit) {
  const TrainDir dir;
  const Setting setting{Precision::bf16, true, 0.1, HomePolicy::automatic};
  const Numbers expected = test::train_numbers(setting_config(setting, dir, 1, 4));
  Config tight = setting_config(setting, dir, 4, 1);
  tight.memory.chunk_size = Bytes{0};
  tight.memory.budgets = {Bytes{1536 * kib}, Bytes{}, Bytes{0}};
  const auto job = make_job(tight);
  ASSERT_TRUE(job) << job.error().message;
  const auto fits = [&](Bytes host) {
    tight.memory.budgets.host = host;
    PlanOptions options = plan_options(tight, Bytes{0});
    options.advise = false;
    return check_fits(job->graph, options).has_value();
  };
  u64 fails = 0, does = 64;  // in units of 64 KiB
  while (fails + 1 < does) {
    const u64 middle = (fails + does) / 2;
    (fits(Bytes{middle * 64 * kib}) ? does : fails) = middle;
  }
  ASSERT_TRUE(fits(Bytes{does * 64 * kib}));
  const auto plan = make_plan(job->graph, plan_options(tight, Bytes{0}));
  ASSERT_TRUE(plan) << plan.error().message;
  u32 on_devices = 0;
  for (const Frame& home : plan->homes) on_devices += home.bytes.value > 0 && home.tier == Tier::device;
  EXPECT_GT(on_devices, 0u);
  EXPECT_EQ(test::train_numbers(tight), expected) << how_to_repeat(tight);
}

// Stops and resumes on another number of devices: the checkpoint does not depend on that number.
TEST(Devices, ACheckpointOfOneResumesOnTwo) {
  const TrainDir dir;
  const Setting setting{Precision::bf16, true, 0.0, HomePolicy::mixed};
  const Config two = setting_config(setting, dir, 2, 1);
  const Numbers expected = test::train_numbers(two);
  Config mixed = setting_config(setting, dir, 1, 2);
  mixed.output.dir = dir / "resumed";
  const auto stopped = test::run(mixed, {.stop_after = 2});
  ASSERT_FALSE(stopped);
  ASSERT_EQ(stopped.error().kind, ErrorKind::interrupted) << stopped.error().message;
  mixed.machine.executor = "cpu:2";
  mixed.train.gradient_accumulation_steps = 1;
  EXPECT_EQ(test::train_numbers(mixed, {.resume = "auto"}), expected);
}

}  // namespace tidepool::devices_test
