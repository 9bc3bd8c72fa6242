// From samples to a Machine.
#pragma once

#include <string>

#include "probe/rates.h"
#include "tidepool/machine.h"

namespace tidepool {

// What is known without measuring.
struct MachineFacts {
  std::string cpu;
  u32 cores = 1;
  u32 numa_nodes = 1;
  Bytes memory{};     // of the machine, or of the cgroup if that is less
  Bytes disk_free{};  // where the disk was measured
};

// Medians, rounded to 4 digits: more would be noise. The device is the host's cores and memory. The name is
// the caller's to give. REQUIRES: samples of all meters but the disk's.
Machine machine_of(const Rates&, const MachineFacts&);

}  // namespace tidepool
