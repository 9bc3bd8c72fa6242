// Nvml reads processes and sensors of GPUs through the NVIDIA driver's management library. The library is
// loaded at run time and may be absent.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/types.h"

namespace tidepool {

struct GpuProcess {
  u32 pid = 0;
  Bytes memory{};    // 0: unknown to the driver, as in containers
  std::string name;  // empty: the process belongs to another user, has ended, or is in another pid namespace
};

// Says whether the driver's process list uses pids of this process's namespace. The driver counts as the host
// does, so in a container with its own pid namespace its pids differ from those of getpid() and /proc: an
// equal number there is a different process.
enum class Pids : u8 { ours, of_the_host };
Pids pids_in(const std::string& pid_namespace);  // "pid:[4026531836]", as in /proc/self/ns/pid
Pids pids_of_driver();                           // for this process

class Nvml {
 public:
  // RETURNS: null if the library is absent or has no driver.
  static std::unique_ptr<Nvml> load(const std::string& library = "libnvidia-ml.so.1");
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  // RETURNS: the processes that compute on the GPU with address `pci` ("0000:3b:00.0"); empty also if the
  // driver does not say. With Pids::ours, this process is left out and names are filled in. With
  // Pids::of_the_host, this process cannot be told from others.
  std::vector<GpuProcess> processes(const std::string& pci, Pids = pids_of_driver()) const;
  // Current readings; 0: unknown.
  double power_watts(const std::string& pci) const;
  u32 clock_mhz(const std::string& pci) const;  // clock of the multiprocessors
  u32 celsius(const std::string& pci) const;    // temperature of the chip

 private:
  struct Functions;
  explicit Nvml(std::unique_ptr<Functions>);
  void* device(const std::string& pci) const;

  std::unique_ptr<Functions> functions_;
};

}  // namespace tidepool
