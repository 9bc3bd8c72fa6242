// GpuSampler records power, clock and temperature of GPUs while a run trains, as the driver reports them.
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

// RETURNS: the addresses of GPUs by their numbers and bus addresses, for as many as both lists have.
std::vector<GpuAddress> gpu_addresses(const std::vector<u32>& numbers, const std::vector<std::string>& pci);

// Readings of one GPU. A number that the driver does not report is 0.
struct GpuReadings {
  std::string name;
  u64 samples = 0;
  double watts_mean = 0, watts_most = 0;
  double mhz_mean = 0, mhz_least = 0;
  double celsius_most = 0;
};

// Allocates only in its constructor.
// THREADS: not thread-safe.
class GpuSampler {
 public:
  static constexpr double seconds_between = 1;  // a query takes some milliseconds

  // If `nvml` is null, there are no readings.
  GpuSampler(std::vector<GpuAddress>, std::unique_ptr<Nvml> nvml);

  // Queries the driver if the last query is at least seconds_between ago. `now`: seconds of a clock of the
  // caller.
  void sample(double now);
  // RETURNS: readings of the GPUs that have at least one sample.
  std::vector<GpuReadings> readings() const;

 private:
  const std::vector<GpuAddress> gpus_;
  const std::unique_ptr<Nvml> nvml_;
  std::vector<GpuReadings> readings_;
  double due_ = 0;
  bool begun_ = false;
};

}  // namespace tidepool
