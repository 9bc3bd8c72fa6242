#include "machine/gpu_sampler.h"

#include <algorithm>

namespace tidepool {
namespace {

// Updates a running mean with its latest sample; `samples` includes that sample.
void add(double& mean, double value, u64 samples) { mean += (value - mean) / static_cast<double>(samples); }

void add(GpuReadings& r, double watts, double mhz, double celsius) {
  ++r.samples;
  add(r.watts_mean, watts, r.samples);
  add(r.mhz_mean, mhz, r.samples);
  r.watts_most = std::max(r.watts_most, watts);
  r.mhz_least = r.samples == 1 ? mhz : std::min(r.mhz_least, mhz);
  r.celsius_most = std::max(r.celsius_most, celsius);
}

}  // namespace

std::vector<GpuAddress> gpu_addresses(const std::vector<u32>& numbers, const std::vector<std::string>& pci) {
  std::vector<GpuAddress> gpus;
  for (u64 i = 0; i < std::min(pci.size(), numbers.size()); ++i)
    gpus.push_back({.name = "cuda:" + std::to_string(numbers[i]), .pci = pci[i]});
  return gpus;
}

GpuSampler::GpuSampler(std::vector<GpuAddress> gpus, std::unique_ptr<Nvml> nvml)
    : gpus_(std::move(gpus)), nvml_(std::move(nvml)), readings_(gpus_.size()) {
  for (u32 i = 0; i < gpus_.size(); ++i) readings_[i].name = gpus_[i].name;
}

void GpuSampler::sample(double now) {
  if (nvml_ == nullptr || (begun_ && now < due_)) return;
  begun_ = true;
  due_ = now + seconds_between;
  for (u32 i = 0; i < gpus_.size(); ++i) {
    const std::string& pci = gpus_[i].pci;
    const double watts = nvml_->power_watts(pci), mhz = nvml_->clock_mhz(pci), celsius = nvml_->celsius(pci);
    if (watts > 0 || mhz > 0 || celsius > 0) add(readings_[i], watts, mhz, celsius);
  }
}

std::vector<GpuReadings> GpuSampler::readings() const {
  std::vector<GpuReadings> out;
  for (const GpuReadings& r : readings_)
    if (r.samples > 0) out.push_back(r);
  return out;
}

}  // namespace tidepool
