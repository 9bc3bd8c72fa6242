// What the NVIDIA driver's management library tells of GPUs. Loaded when it is asked for: there need not be
// one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/types.h"

namespace tidepool {

struct GpuProcess {
  u32 pid = 0;
  Bytes memory{};    // 0: the driver does not say, as in containers
  std::string name;  // empty: of another user, gone, or of another pid namespace
};

// Whose numbers the driver's list of processes has. It counts as the host does, so in a container of its own
// pid namespace they are not those of getpid() and /proc: the same number there is somebody else.
enum class Pids : u8 { ours, of_the_host };
Pids pids_in(const std::string& pid_namespace);  // "pid:[4026531836]", as /proc/self/ns/pid has it
Pids pids_of_driver();                           // as this process sees them

class Nvml {
 public:
  // Null where there is no such library, or no driver behind it.
  static std::unique_ptr<Nvml> load(const std::string& library = "libnvidia-ml.so.1");
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  // `pci`: "0000:3b:00.0". Those that compute. By pids of ours: but for this process, and with names; by the
  // host's this process cannot be told from others. Empty also where the driver does not say.
  std::vector<GpuProcess> processes(const std::string& pci, Pids = pids_of_driver()) const;
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
