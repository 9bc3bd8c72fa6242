// MeasuredDevice is a device as measurements see it: memory, kernels and copies, and no plan. A program built
// with CUDA registers GPUs; the code that decides what to measure, and counts it, needs none.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "kernels/adamw/adamw.h"
#include "kernels/kernels.h"

namespace tidepool {

struct MeasuredFacts {
  std::string name;         // the maker's name for it
  bool gpu = true;          // false: the CPU's cores, in the host's memory
  u32 count = 1;            // GPUs of this name that the program can see
  Bytes memory{};           // of the GPU
  u32 processors = 0;       // multiprocessors, which share a product's outputs; 0: not known
  bool has_bf16 = true;     // has products of bf16; GPUs have them from sm_80 on
  std::string attention{};  // library of the attention, "cuDNN 9.19.0"; empty: our own kernels, by choice
};

// On a GPU, calls queue the work and return at once: kernels run one after the other, copies of each
// direction too, and the three queues run at the same time. On a CPU, calls do the work before they return.
class MeasuredDevice {
 public:
  virtual ~MeasuredDevice() = default;

  virtual const MeasuredFacts& facts() const = 0;
  virtual std::span<std::byte> memory() = 0;       // device memory, aligned to 256 bytes
  virtual std::span<std::byte> host_memory() = 0;  // allocated as a run's host arena is: pinned for GPUs

  virtual Kernels& kernels() = 0;
  // Tunes the products that are measured next: `call` runs them with kernels that time the algorithms of each
  // product and choose the fastest, as runs do before their first step. Overwrites arrays. The CPU has one
  // algorithm: a no-op.
  virtual void tune(const std::function<void(Kernels&)>& call) { static_cast<void>(call); }
  virtual void finish_gradient(const float* accumulator, std::byte* grad, Precision, u64 elements) = 0;
  // Arrays and length are the chunk's; decay and scalars are those of an arbitrary step.
  virtual void adamw(const AdamWChunk&, Precision) = 0;
  // REQUIRES: equal sizes; the host's range lies in host_memory(), the other in memory().
  virtual void copy_h2d(std::span<std::byte> to, std::span<const std::byte> from) = 0;
  virtual void copy_d2h(std::span<std::byte> to, std::span<const std::byte> from) = 0;
  // Blocks until all work is done.
  // Error: a failure that the GPU or its libraries have reported since the last wait.
  virtual Result<void> wait() = 0;
};

struct MeasureRequest {
  u32 index = 0;                               // number of the GPU in the driver's order
  Bytes memory{};                              // device memory
  Bytes host_memory{};                         // a multiple of frame_alignment, as is `memory`
  CorePool& pool;                              // outlives the device
  std::optional<AttentionToCome> attention{};  // attention that a library may compute, if the device is a GPU
};

// The CPU as a device: kernels on the pool, copies within memory.
Result<std::unique_ptr<MeasuredDevice>> measure_cores(const MeasureRequest&);

class MeasuredGpus {
 public:
  virtual ~MeasuredGpus() = default;
  // The reason why GPU `index` cannot be used here, with advice; empty if it can.
  virtual std::string why_none(u32 index) const = 0;
  virtual Result<Bytes> free_memory(u32 index) const = 0;
  virtual Result<std::unique_ptr<MeasuredDevice>> open(const MeasureRequest&) const = 0;
};
// As register_gpu_backend().
void register_measured_gpus(const MeasuredGpus&);
const MeasuredGpus* measured_gpus();  // null: the program was built without CUDA

// Fills memory with the numbers of make_uniform().
// REQUIRES: no work is in flight.
Result<void> fill_device(MeasuredDevice&, std::span<std::byte> memory, Precision, float scale);

using Clock = std::function<double()>;  // seconds; tests pass their own
Clock steady_clock();

struct DeviceTimer {
  MeasuredDevice& device;
  Clock now;
  double slice_seconds = 0.02;  // of one sample, at least: waiting for a GPU takes some 20 us by itself

  // Work per second of calls issued one after the other; `work` is the work of one call.
  Result<double> rate(double work, const std::function<void()>& call) const;
};

}  // namespace tidepool
