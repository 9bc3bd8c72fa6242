// One part of the machine under measurement. The rounds of all meters are interleaved, so that a machine
// which changes speed meanwhile does so for all of them.
#pragma once

#include <memory>

#include "probe/rates.h"
#include "tidepool/chunk.h"
#include "tidepool/core_pool.h"

namespace tidepool {

class Meter {
 public:
  virtual ~Meter() = default;
  // Adds one sample to each rate of this meter. Blocks.
  virtual Result<void> measure(Rates&) = 0;
};

struct MeterOptions {
  double slice_seconds = 0.02;  // of one sample, at least
  Bytes memory{gib};            // what one meter may take
};

// Matrix products in fp32 and bf16 as blocks ask for them, a layer's forward and backward with recompute,
// the kernel that finishes gradients, and the wake-up of a sleeping thread. REQUIRES: a pool with
// kernel_scratch_per_worker, which outlives the meter.
//   product_key(...), layer_key, device.memory_rate, wake_up_key
Result<std::unique_ptr<Meter>> create_compute_meter(CorePool&, const MeterOptions&);

// Scaling in place, AdamW of bf16 with checksums, checksums alone.
//   host.memory_rate, host.adam, host.checksum
Result<std::unique_ptr<Meter>> create_memory_meter(CorePool&, const MeterOptions&);

// Memory to memory as the cpu executor copies: each way alone, both ways at once.
//   copies.h2d, copies.d2h, copies.both
Result<std::unique_ptr<Meter>> create_copy_meter(CorePool&, const MeterOptions&);

// Keys of samples that are no rates of the machine file themselves.
inline constexpr std::string_view layer_key = "layer";
inline constexpr std::string_view wake_up_key = "wake_up";
std::string product_key(Precision, u32 product);  // of products[]

}  // namespace tidepool
