// Layers over devices change no number: whatever the count of devices and the placement, the bits are those
// of one device with as many micro-batches.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "planner/planner.h"
#include "tests/support/lora_fixture.h"
#include "tests/support/train_fixture.h"

namespace tidepool::layers_test {

using test::how_to_repeat;
using test::Numbers;
using test::numbers_of;
using test::TrainDir;

struct Setting {
  Precision precision{};
  bool clipping = true;
  double dropout = 0;
  HomePolicy home{};
  u32 sweeps = 0;
};

std::string setting_name(const ::testing::TestParamInfo<Setting>& info) {
  constexpr const char* homes[] = {"auto", "device", "host", "disk", "mixed"};
  return fmt::format("{}_{}_{}_sweeps{}", name(info.param.precision),
                     info.param.clipping ? "clipped" : "unclipped", homes[static_cast<u32>(info.param.home)],
                     info.param.sweeps);
}

constexpr u32 micro_batches = 12;  // of a step

Config on_devices(Config c, u32 devices) {
  c.output.dir += fmt::format("-{}", devices);
  c.machine.executor = fmt::format("cpu:{}", devices);
  c.machine.parallel = Parallel::layers;
  c.train.gradient_accumulation_steps = micro_batches / devices;
  return c;
}

Config setting_config(const Setting& setting, const TrainDir& dir) {
  Config c = test::small_config(dir);
  c.train.precision = setting.precision;
  if (setting.precision == Precision::fp16) test::make_fp16_that_overflows(c);
  c.train.max_grad_norm = setting.clipping ? 0.5 : 0.0;
  c.model.embedding_dropout = c.model.attention.dropout = c.model.residual_dropout = setting.dropout;
  c.memory.home = setting.home;
  c.memory.sweeps = setting.sweeps;
  c.memory.chunk_size = Bytes{40 * kib};
  return c;
}

void expect_the_bits_of_one(const Config& c) {
  const Numbers expected = test::train_numbers(on_devices(c, 1));
  for (const u32 devices : {2u, 3u, 4u}) {
    const Config several = on_devices(c, devices);
    SCOPED_TRACE(how_to_repeat(several));
    const auto report = test::run(several);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(numbers_of(*report), expected);
    for (u32 l = 0; l < link_count; ++l)
      EXPECT_EQ(report->links[l].measured, report->links[l].planned) << name(static_cast<LinkKind>(l));
    EXPECT_FALSE(report->comm);
    EXPECT_LE(report->tiers[0].measured_peak, report->tiers[0].planned_peak);
  }
}

class Layers : public ::testing::TestWithParam<Setting> {};

TEST_P(Layers, OverDevicesGiveTheBitsOfOneDevice) {
  const TrainDir dir;
  expect_the_bits_of_one(setting_config(GetParam(), dir));
}

INSTANTIATE_TEST_SUITE_P(Settings, Layers,
                         ::testing::Values(Setting{Precision::fp32, true, 0.0, HomePolicy::automatic},
                                           Setting{Precision::fp32, false, 0.1, HomePolicy::device},
                                           Setting{Precision::bf16, true, 0.1, HomePolicy::disk},
                                           Setting{Precision::bf16, true, 0.0, HomePolicy::host, 3},
                                           Setting{Precision::bf16, false, 0.1, HomePolicy::mixed},
                                           Setting{Precision::fp16, true, 0.1, HomePolicy::disk},
                                           Setting{Precision::fp16, false, 0.0, HomePolicy::device}),
                         setting_name);

TEST(Layers, WithExpertsGiveTheBitsOfOneDevice) {
  const TrainDir dir;
  for (const Family family : {Family::qwen3_moe, Family::gpt_oss, Family::deepseek_v3, Family::qwen3_next}) {
    Config c = setting_config({Precision::bf16, true, 0.0, HomePolicy::automatic}, dir);
    c.model = test::small_model(family);
    c.memory.budgets = {Bytes{64 * mib}, Bytes{64 * mib}, Bytes{256 * mib}};
    c.output.dir += name(family);
    expect_the_bits_of_one(c);
  }
}

TEST(Layers, OfAFrozenModelWithAdaptersGiveTheBitsOfOneDevice) {
  const TrainDir dir;
  Config c = setting_config({Precision::bf16, true, 0.0, HomePolicy::automatic}, dir);
  c.model = test::small_model(Family::llama);
  expect_the_bits_of_one(test::lora_config(std::move(c), test::made_base(dir, Family::llama)));
}

// A checkpoint does not know how devices share a step.
TEST(Layers, OverTwoDevicesStopAndResumeOverThree) {
  const TrainDir dir;
  const Config c = setting_config({Precision::bf16, true, 0.0, HomePolicy::mixed}, dir);
  const Numbers expected = test::train_numbers(on_devices(c, 1));
  Config resumed = on_devices(c, 2);
  const auto stopped = test::run(resumed, {.stop_after = 2});
  ASSERT_FALSE(stopped);
  ASSERT_EQ(stopped.error().kind, ErrorKind::interrupted) << stopped.error().message;
  resumed.machine.executor = "cpu:3";
  resumed.train.gradient_accumulation_steps = micro_batches / 3;
  EXPECT_EQ(test::train_numbers(resumed, {.resume = "auto"}), expected);
}

}  // namespace tidepool::layers_test
