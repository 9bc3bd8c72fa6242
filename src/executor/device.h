// Device is one device, cores or a GPU, as measurements see it: memory, kernels and copies, and no plan. At
// rest, each device of a run is also a Device (executor/devices.h). A device opened for measurements
// alone is a MeasuredDevice.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "base/result.h"
#include "kernels/kernels.h"
#include "optimizers/optimizer.h"

namespace tidepool {

struct DeviceFacts {
  std::string name;         // the maker's name for it
  bool gpu = true;          // false: the CPU's cores; kernels and the host access the same memory
  u32 count = 1;            // GPUs of this name that the program can see
  Bytes memory{};           // memory of the GPU
  u32 processors = 0;       // multiprocessors, which share a product's outputs; 0: not known
  bool has_bf16 = true;     // has products of bf16; GPUs have them from sm_80 on
  std::string attention{};  // library of the attention, "cuDNN 9.19.0"; empty: our own kernels, by choice
};

// On a GPU, calls queue the work and return at once: kernels run one after the other, copies of each
// direction too, and the three queues run at the same time. On cores, calls do the work before they return.
// THREADS: one thread at a time. On cores, copies may be called by several threads at once.
class Device {
 public:
  virtual ~Device() = default;

  virtual const DeviceFacts& facts() const = 0;
  virtual std::span<std::byte> memory() = 0;       // device memory, aligned to 256 bytes
  virtual std::span<std::byte> host_memory() = 0;  // host memory for copies: pinned for GPUs

  virtual Kernels& kernels() = 0;
  // REQUIRES: equal sizes; the host's range lies in host_memory(), the other in memory().
  virtual void copy_h2d(std::span<std::byte> to, std::span<const std::byte> from) = 0;
  virtual void copy_d2h(std::span<std::byte> to, std::span<const std::byte> from) = 0;
  // Blocks until all work is done.
  // Error: a failure that the GPU or its libraries have reported since the last wait.
  virtual Result<void> wait() = 0;
};

// MeasuredDevice also tunes products, and runs the kernels that runs call beside `Kernels`.
class MeasuredDevice : public Device {
 public:
  // Tunes the products that are measured next: `call` runs them with kernels that time the algorithms of each
  // product and choose the fastest, as runs do before their first step. Overwrites arrays. Cores have one
  // algorithm: a no-op.
  virtual void tune(const std::function<void(Kernels&)>& call) { static_cast<void>(call); }
  virtual void finish_gradient(const float* accumulator, std::byte* grad, Precision, u64 elements) = 0;
  // REQUIRES: arrays, segments and scalars lie in memory().
  virtual void update(const UpdateChunk&, const StateSlots&, Optim, const UpdateScalars*) = 0;
};

}  // namespace tidepool
