// Meters of a GPU. With a GPU they replace the meters of the CPU.
#pragma once

#include <memory>
#include <vector>

#include "executor/device.h"
#include "probe/copies.h"
#include "probe/device_timer.h"
#include "probe/meter.h"
#include "tidepool/model_graph.h"

namespace tidepool {

struct ProductShape {
  u32 m = 0, n = 0, k = 0;

  constexpr double flops() const { return 2.0 * m * n * k; }
};

// GpuWork is the size of all measurements: enough to keep a large GPU busy, and far more than its caches
// hold.
struct GpuWork {
  std::vector<ProductShape> products{{8192, 8192, 8192}, {8192, 16384, 4096}};
  // A layer of a 7B model, with as many tokens as a micro-batch on a large GPU: a quarter of them reach four
  // fifths of the rate (measured on an H200).
  ModelConfig layer{
      .vocab_size = 256, .positions = 2048, .width = 4096, .layers = 1, .attention = {.heads = 32}};
  BatchShape batch{.sequences = 4, .tokens = 2048};
  u64 elements = 64 * mib;  // elements of a finished gradient, and of a chunk set that is updated
  CopyWork copies{.bytes = Bytes{128 * mib}, .piece = Bytes{64 * mib}};  // pieces as runs copy chunks

  Bytes memory() const;  // on the GPU: copies have the end of it
  Bytes host_memory() const { return copies.memory(); }
  // Attention of the layer, in bf16.
  std::optional<AttentionToCome> attention() const;
};
// The same work, halved until it fits.
GpuWork work_within(GpuWork, Bytes memory);

struct GpuMeterOptions {
  GpuWork work;
  Clock now = steady_clock();
  double slice_seconds = 0.02;
};

// Measures large products in each precision that the GPU has, a layer's forward and backward with recompute,
// the kernel that finishes gradients, an update on the GPU, and a kernel too small to count.
// REQUIRES: device.memory() holds work.memory(); host_memory() is not empty; the device outlives the meter.
// Keys:
//   product_key(...), layer_key, device.memory_rate, device.update, launch_key
Result<std::unique_ptr<Meter>> create_gpu_compute_meter(MeasuredDevice&, const GpuMeterOptions&);

// Precision in which the layer computes: bf16 if the GPU has it, else fp32.
inline Precision layer_precision(const DeviceFacts& f) {
  return f.has_bf16 ? Precision::bf16 : Precision::fp32;
}
std::vector<KernelCost> layer_costs(const GpuWork&, Precision);

inline constexpr std::string_view launch_key = "launch";

}  // namespace tidepool
