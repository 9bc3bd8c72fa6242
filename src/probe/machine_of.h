// machine_of() turns samples into a Machine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "executor/device.h"
#include "probe/meter.h"
#include "probe/rates.h"
#include "tidepool/machine.h"

namespace tidepool {

// MachineFacts are known without measuring.
struct MachineFacts {
  std::string cpu;
  u32 cores = 1;
  u32 numa_nodes = 1;
  Bytes memory{};                                       // memory of the machine, or of the cgroup if less
  Bytes disk_free{};                                    // free space of the measured disk
  std::optional<DeviceFacts> gpu;                       // none: the device is the CPU's cores and memory
  std::vector<KernelCost> layer = cores_layer_costs();  // kernels of the layer that layer_key measures
  Precision layer_precision = Precision::bf16;
};

// The fastest product in this precision; null: none was measured.
const MeasuredRate* best_product(const Rates&, Precision);

// Medians, rounded to 4 digits: more would be noise. The caller sets the name.
// REQUIRES: samples of all meters except the disk's; with a GPU, samples of its meters in place of the CPU's.
Machine machine_of(const Rates&, const MachineFacts&);

}  // namespace tidepool
