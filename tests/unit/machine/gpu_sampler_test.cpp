// Tests the driver's readings of GPUs, with a stand-in for its library.
#include "machine/gpu_sampler.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/places.h"

namespace tidepool::gpu_sampler_test {

constexpr const char* gpu = "0000:01:00.0";

TEST(Nvml, IsAbsentWithoutItsLibrary) { EXPECT_EQ(Nvml::load("libno-such-library.so.1"), nullptr); }

TEST(Nvml, ReturnsTheDriversReadings) {
  const auto nvml = Nvml::load(built_file("tests/libfake_nvml.so"));
  ASSERT_NE(nvml, nullptr);
  EXPECT_EQ(nvml->power_watts(gpu), 300);
  EXPECT_EQ(nvml->clock_mhz(gpu), 1980u);
  EXPECT_EQ(nvml->celsius(gpu), 61u);
  EXPECT_EQ(nvml->celsius("0000:02:00.0"), 0u) << "not known";
  EXPECT_TRUE(nvml->processes("0000:02:00.0", Pids::ours).empty());
}

TEST(Nvml, LeavesThisProgramOutByItsPid) {
  const auto nvml = Nvml::load(built_file("tests/libfake_nvml.so"));
  ASSERT_NE(nvml, nullptr);
  const auto others = nvml->processes(gpu, Pids::ours);
  ASSERT_EQ(others.size(), 1u);
  EXPECT_EQ(others[0].pid, 1u);
  EXPECT_EQ(others[0].memory, Bytes{0}) << "the driver does not say";
  std::string first;
  std::getline(std::ifstream("/proc/1/comm") >> std::ws, first);
  EXPECT_EQ(others[0].name, first);
}

// In a container, our pid belongs to another process on the host, and so do pids in /proc.
TEST(Nvml, NamesNoProcessForPidsOfTheHost) {
  const auto nvml = Nvml::load(built_file("tests/libfake_nvml.so"));
  ASSERT_NE(nvml, nullptr);
  const auto all = nvml->processes(gpu, Pids::of_the_host);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].memory, Bytes{gib});
  for (const GpuProcess& p : all) EXPECT_EQ(p.name, "") << p.pid;
}

TEST(Nvml, ThePidNamespaceOfTheHostIsKnownByItsNumber) {
  EXPECT_EQ(pids_in("pid:[4026531836]"), Pids::ours);
  EXPECT_EQ(pids_in("pid:[4026532451]"), Pids::of_the_host);
  EXPECT_EQ(pids_in(""), Pids::of_the_host) << "not known";
}

TEST(GpuSampler, AsksOnceASecondAndKeepsMeansAndExtremes) {
  GpuSampler sampler({{"cuda:0", gpu}, {"cuda:1", "0000:02:00.0"}},
                     Nvml::load(built_file("tests/libfake_nvml.so")));
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

}  // namespace tidepool::gpu_sampler_test
