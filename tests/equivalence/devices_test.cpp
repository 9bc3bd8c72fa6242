// Several devices change no number: N devices with one micro-batch each give the bits of one device that
// accumulates N, and then every placement gives those too (placement_test has groups of two devices).
#include <gmock/gmock.h>

#include "tests/support/train_fixture.h"

namespace tidepool {
namespace {

using testing::how_to_repeat;
using testing::Numbers;
using testing::numbers_of;
using testing::TrainDir;

struct Setting {
  Precision precision{};
  bool clipping = true;
  double dropout = 0;
  HomePolicy home{};
};

std::string setting_name(const ::testing::TestParamInfo<Setting>& info) {
  constexpr const char* homes[] = {"auto", "device", "host", "disk", "mixed"};
  return fmt::format("{}_{}_{}", info.param.precision == Precision::fp32 ? "fp32" : "bf16",
                     info.param.clipping ? "clipped" : "unclipped", homes[static_cast<u32>(info.param.home)]);
}

Config setting_config(const Setting& setting, const TrainDir& dir, u32 devices, u32 accumulation) {
  Config c = testing::small_config(dir, fmt::format("run-{}-{}", devices, accumulation));
  c.train.precision = setting.precision;
  c.train.max_grad_norm = setting.clipping ? 0.5 : 0.0;
  c.model.embd_pdrop = c.model.attn_pdrop = c.model.resid_pdrop = setting.dropout;
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
    const Config one = setting_config(GetParam(), dir, 1, count), several = setting_config(GetParam(), dir, count, 1);
    const Numbers expected = testing::train_numbers(one);
    SCOPED_TRACE(how_to_repeat(several));
    const auto report = testing::run(several);
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
                                           Setting{Precision::bf16, false, 0.1, HomePolicy::mixed}),
                         setting_name);

// A stop and a resume on another number of devices: the checkpoint does not know how many there were.
TEST(Devices, ACheckpointOfOneGoesOnOnTwo) {
  const TrainDir dir;
  const Setting setting{Precision::bf16, true, 0.0, HomePolicy::mixed};
  const Config two = setting_config(setting, dir, 2, 1);
  const Numbers expected = testing::train_numbers(two);
  Config mixed = setting_config(setting, dir, 1, 2);
  mixed.output.dir = dir / "resumed";
  const auto stopped = testing::run(mixed, {.stop_after = 2});
  ASSERT_FALSE(stopped);
  ASSERT_EQ(stopped.error().kind, ErrorKind::interrupted) << stopped.error().message;
  mixed.machine.executor = "cpu:2";
  mixed.train.gradient_accumulation_steps = 1;
  EXPECT_EQ(testing::train_numbers(mixed, {.resume = "auto"}), expected);
}

}  // namespace
}  // namespace tidepool
