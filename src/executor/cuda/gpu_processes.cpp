#include "executor/cuda/gpu_processes.h"

#include <fmt/format.h>

#include "executor/cuda/cuda_device.h"

namespace tidepool {
namespace {

std::string describe(const GpuProcess& p) {
  const std::string who =
      p.name.empty() ? fmt::format("process {}", p.pid) : fmt::format("{} ({})", p.name, p.pid);
  if (p.memory.value == 0) return who + " has some";
  return fmt::format("{} has {:.2f} GiB", who,
                     static_cast<double>(p.memory.value) / static_cast<double>(gib));
}

}  // namespace

std::string describe_gpu_processes(const cudaDeviceProp& gpu, Pids pids) {
  const std::unique_ptr<Nvml> nvml = Nvml::load();
  if (!nvml) return {};
  std::string out;
  for (const GpuProcess& p : nvml->processes(pci_of(gpu), pids))
    out += (out.empty() ? " " : ", ") + describe(p);
  return out.empty() ? out : out + ".";
}

}  // namespace tidepool
