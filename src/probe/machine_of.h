// From samples to a Machine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "probe/layer_load.h"
#include "probe/measured_device.h"
#include "probe/rates.h"
#include "tidepool/machine.h"

namespace tidepool {

// What is known without measuring.
struct MachineFacts {
  std::string cpu;
  u32 cores = 1;
  u32 numa_nodes = 1;
  Bytes memory{};                                 // of the machine, or of the cgroup if that is less
  Bytes disk_free{};                              // where the disk was measured
  std::optional<MeasuredFacts> gpu;               // none: the device is the host's cores and memory
  std::vector<KernelCost> layer = layer_costs();  // of which layer_key is the rate
  Precision layer_precision = Precision::bf16;
};

// The product that went fastest; null: none of this precision was measured.
const MeasuredRate* best_product(const Rates&, Precision);

// Medians, rounded to 4 digits: more would be noise. The name is the caller's to give. REQUIRES: samples of
// all meters but the disk's; with a GPU, its meters' in place of the cores'.
Machine machine_of(const Rates&, const MachineFacts&);

}  // namespace tidepool
