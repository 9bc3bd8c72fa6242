// What GPUs draw and how fast they run while a run trains, as the driver tells it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "machine/nvml.h"

namespace tidepool {

struct GpuAddress {
  std::string name;  // "cuda:0"
  std::string pci;   // "0000:3b:00.0"
};

// Of one GPU; a number that the driver does not tell is 0.
struct GpuReadings {
  std::string name;
  u64 samples = 0;
  double watts_mean = 0, watts_most = 0;
  double mhz_mean = 0, mhz_least = 0;
  double celsius_most = 0;
};

// Takes no memory once it is made. Not thread-safe.
class GpuSampler {
 public:
  static constexpr double seconds_between = 1;  // asking takes some milliseconds

  // nvml: null, where there is none: then there are no readings.
  GpuSampler(std::vector<GpuAddress>, std::unique_ptr<Nvml> nvml);

  // Asks if the last time is long enough ago. `now`: of a clock of the caller's, seconds.
  void sample(double now);
  // Of GPUs of which there is a sample.
  std::vector<GpuReadings> readings() const;

 private:
  const std::vector<GpuAddress> gpus_;
  const std::unique_ptr<Nvml> nvml_;
  std::vector<GpuReadings> readings_;
  double due_ = 0;
  bool begun_ = false;
};

}  // namespace tidepool
