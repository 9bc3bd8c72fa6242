// A device as measurements see it: memory, kernels and copies, and no plan. Of GPUs a program that was built
// with CUDA brings some; everything that decides what is measured, and counts it, needs none.
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
  std::string name;         // as its maker calls it
  bool gpu = true;          // false: the cores, in the host's memory
  u32 count = 1;            // GPUs of this name that the program sees
  Bytes memory{};           // of the card
  u32 processors = 0;       // that share a product's outputs; 0: not known
  bool has_bf16 = true;     // products of bf16; GPUs have them from sm_80 on
  std::string attention{};  // what makes it, "cuDNN 9.19.0"; empty: our own kernels, by choice
};

// What is called on a GPU is handed over and returns at once: kernels run one after the other, copies of each
// direction likewise, and the three beside each other. Cores do at once what they are told.
class MeasuredDevice {
 public:
  virtual ~MeasuredDevice() = default;

  virtual const MeasuredFacts& facts() const = 0;
  virtual std::span<std::byte> memory() = 0;       // the device's, aligned to 256 bytes
  virtual std::span<std::byte> host_memory() = 0;  // taken as a run's host arena is: pinned for GPUs

  virtual Kernels& kernels() = 0;
  // `call` goes through products that are measured next, with kernels that choose the algorithm of each by a
  // clock, as runs do before their first step. Arrays are overwritten. Cores have one algorithm: nothing.
  virtual void tune(const std::function<void(Kernels&)>& call) { static_cast<void>(call); }
  virtual void finish_gradient(const float* accumulator, std::byte* grad, Precision, u64 elements) = 0;
  // Arrays and their length are the chunk's; decay and scalars are those of some step.
  virtual void adamw(const AdamWChunk&, Precision) = 0;
  // Sizes are equal; the host's side lies in host_memory(), the other in memory().
  virtual void copy_h2d(std::span<std::byte> to, std::span<const std::byte> from) = 0;
  virtual void copy_d2h(std::span<std::byte> to, std::span<const std::byte> from) = 0;
  // Until all of it is done. Error: what the GPU or its libraries refused since the last wait.
  virtual Result<void> wait() = 0;
};

struct MeasureRequest {
  u32 index = 0;                               // of a GPU, as the driver counts them
  Bytes memory{};                              // the device's
  Bytes host_memory{};                         // a multiple of frame_alignment, as the other
  CorePool& pool;                              // outlives the device
  std::optional<AttentionToCome> attention{};  // that a library may make, if the device is a GPU
};

// The cores as a device: kernels on the pool, copies within memory.
Result<std::unique_ptr<MeasuredDevice>> measure_cores(const MeasureRequest&);

class MeasuredGpus {
 public:
  virtual ~MeasuredGpus() = default;
  // Why GPU `index` cannot be used here, in words that say what to do; empty where it can.
  virtual std::string why_none(u32 index) const = 0;
  virtual Result<Bytes> free_memory(u32 index) const = 0;
  virtual Result<std::unique_ptr<MeasuredDevice>> open(const MeasureRequest&) const = 0;
};
// As register_gpu_backend.
void register_measured_gpus(const MeasuredGpus&);
const MeasuredGpus* measured_gpus();  // null: this program was built without

// With make_uniform's numbers. REQUIRES: nothing is under way.
Result<void> fill_device(MeasuredDevice&, std::span<std::byte> memory, Precision, float scale);

using Clock = std::function<double()>;  // seconds; tests bring their own
Clock steady_clock();

struct DeviceTimer {
  MeasuredDevice& device;
  Clock now;
  double slice_seconds = 0.02;  // of one sample, at least: to wait for a GPU takes some 20 us by itself

  // Work per second of calls handed over one after the other; `work` is that of one call.
  Result<double> rate(double work, const std::function<void()>& call) const;
};

}  // namespace tidepool
