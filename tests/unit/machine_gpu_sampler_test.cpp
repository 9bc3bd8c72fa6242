// What the driver tells of GPUs, with a library in its place.
#include <gtest/gtest.h>

#include "machine/gpu_sampler.h"

namespace tidepool {
namespace {

constexpr const char* gpu = "0000:01:00.0";

TEST(Nvml, IsAbsentWhereThereIsNoLibrary) { EXPECT_EQ(Nvml::load("libno-such-library.so.1"), nullptr); }

TEST(Nvml, TellsWhatTheDriverTells) {
  const auto nvml = Nvml::load(TIDEPOOL_FAKE_NVML);
  ASSERT_NE(nvml, nullptr);
  EXPECT_EQ(nvml->power_watts(gpu), 300);
  EXPECT_EQ(nvml->clock_mhz(gpu), 1980u);
  EXPECT_EQ(nvml->celsius(gpu), 61u);
  EXPECT_EQ(nvml->celsius("0000:02:00.0"), 0u) << "not known";
  EXPECT_TRUE(nvml->processes(gpu).empty());
}

TEST(GpuSampler, AsksOnceASecondAndKeepsMeansAndExtremes) {
  GpuSampler sampler({{"cuda:0", gpu}, {"cuda:1", "0000:02:00.0"}}, Nvml::load(TIDEPOOL_FAKE_NVML));
  EXPECT_TRUE(sampler.readings().empty());
  for (const double now : {5.0, 5.2, 5.9, 6.0, 6.5, 8.0}) sampler.sample(now);
  const auto readings = sampler.readings();
  ASSERT_EQ(readings.size(), 1u) << "of the other the driver knows nothing";
  EXPECT_EQ(readings[0].name, "cuda:0");
  EXPECT_EQ(readings[0].samples, 3u);
  EXPECT_NEAR(readings[0].watts_mean, 310, 1e-9);
  EXPECT_EQ(readings[0].watts_most, 320);
  EXPECT_NEAR(readings[0].mhz_mean, 1965, 1e-9);
  EXPECT_EQ(readings[0].mhz_least, 1950);
  EXPECT_EQ(readings[0].celsius_most, 61);
}

TEST(GpuSampler, WithoutADriverThereIsNothing) {
  GpuSampler sampler({{"cuda:0", gpu}}, nullptr);
  sampler.sample(1);
  EXPECT_TRUE(sampler.readings().empty());
}

}  // namespace
}  // namespace tidepool
