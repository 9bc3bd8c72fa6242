// What the NVIDIA driver's management library tells of GPUs. Loaded when it is asked for: there need not be
// one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tidepool/types.h"

namespace tidepool {

struct GpuProcess {
  u32 pid = 0;
  Bytes memory{};    // 0: the driver does not say, as in containers
  std::string name;  // empty: of another user, or gone
};

class Nvml {
 public:
  // Null where there is no such library, or no driver behind it.
  static std::unique_ptr<Nvml> load(const std::string& library = "libnvidia-ml.so.1");
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  // `pci`: "0000:3b:00.0". Those that compute, but for this process. Empty also where the driver does not
  // say.
  std::vector<GpuProcess> processes(const std::string& pci) const;
  // Right now; 0: not known.
  double power_watts(const std::string& pci) const;
  u32 clock_mhz(const std::string& pci) const;  // of the multiprocessors
  u32 celsius(const std::string& pci) const;    // of the chip

 private:
  struct Functions;
  explicit Nvml(std::unique_ptr<Functions>);
  void* device(const std::string& pci) const;

  std::unique_ptr<Functions> functions_;
};

}  // namespace tidepool
