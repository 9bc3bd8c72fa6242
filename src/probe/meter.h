// Meter measures one part of the machine. The rounds of all meters are interleaved, so that a change of the
// machine's speed affects all of them.
#pragma once

#include <memory>
#include <vector>

#include "executor/device.h"
#include "probe/copies.h"
#include "probe/device_timer.h"
#include "probe/rates.h"
#include "tidepool/chunk.h"
#include "tidepool/core_pool.h"
#include "tidepool/kernel_cost.h"

namespace tidepool {

class Meter {
 public:
  virtual ~Meter() = default;
  // Adds one sample to each rate of this meter. Blocks.
  virtual Result<void> measure(Rates&) = 0;
};

struct MeterOptions {
  double slice_seconds = 0.02;  // least length of one sample
  Bytes memory{gib};            // limit for one meter
};

// Measures matrix products in fp32 and bf16 as blocks use them, a layer's forward and backward with
// recompute, the kernel that finishes gradients, and the wake-up of a sleeping thread.
// REQUIRES: the device is made of the pool's cores, and the beginning of its memory, cores_layer_memory(), is
// the meter's; both outlive the meter.
// Keys:
//   product_key(...), layer_key, device.memory_rate, wake_up_key
Result<std::unique_ptr<Meter>> create_compute_meter(MeasuredDevice& cores, CorePool&, const MeterOptions&);
Bytes cores_layer_memory();
std::vector<KernelCost> cores_layer_costs();  // kernels of the layer that layer_key measures

// Measures scaling in place, updates of bf16 with checksums, checksums alone.
// Keys:
//   host.memory_rate, host_update_key(), host.checksum
Result<std::unique_ptr<Meter>> create_memory_meter(CorePool&, const MeterOptions&);

struct CopyMeterOptions {
  CopyWork work;
  Clock now = steady_clock();
  double slice_seconds = 0.02;
};

// Measures copies between the host and the device: each way alone, and both at once with equal bytes.
// REQUIRES: the meter has the end of device.memory() and the beginning of host_memory(), work.memory() each,
// while it measures; the device outlives it.
// Keys:
//   copies.h2d, copies.d2h, copies.both
std::unique_ptr<Meter> create_copy_meter(Device&, const CopyMeterOptions&);

// Bytes that the gradient kernel moves: it reads the fp32 accumulator and writes the bf16 gradient.
inline constexpr u64 gradient_bytes_per_element = 4 + 2;

// Keys of samples that are not themselves rates of the machine file.
inline constexpr std::string_view layer_key = "layer";
inline constexpr std::string_view wake_up_key = "wake_up";
std::string product_key(Precision, u32 product);  // `product` is an index into products[]

}  // namespace tidepool
