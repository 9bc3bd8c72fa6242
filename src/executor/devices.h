// Devices are the devices of a run, on any hardware: their memory, taken once, their kernels, and the
// executor that drives them.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "executor/shared/training_executor.h"
#include "io/arena.h"
#include "kernels/kernels.h"
#include "kernels/matmul/product_choices.h"
#include "tidepool/model_graph.h"

namespace tidepool {

// REQUIRES: everything referred to outlives the devices.
struct DevicesRequest {
  const Plan& plan;
  const ModelGraph& graph;
  CorePool& pool;
  ArenaLedger& ledger;
  Bytes reserved{};       // at the end of each device's memory: holds no frames
  std::vector<u32> gpus;  // by device: the driver's GPU number
  // Algorithms of matrix products on GPUs. Creating the executor times the products that are missing, and
  // adds them. Null: products are not timed.
  ProductChoices* choices = nullptr;
};

class Devices {
 public:
  virtual ~Devices() = default;

  // One line per device, for people.
  virtual std::vector<std::string> describe() const = 0;
  // RETURNS: bus addresses ("0000:3b:00.0") of devices on a bus: memory near them is reached at full rate.
  virtual std::vector<std::string> pci() const { return {}; }
  // Creates the one executor of these devices.
  // REQUIRES: the devices outlive the executor.
  virtual Result<std::unique_ptr<TrainingExecutor>> create_executor(const ExecutorRequest&) = 0;

  // ---- the first device, while no op is in flight: for measurements

  virtual Kernels& kernels() = 0;
  // Memory of the first device's frames. Kernels can access it; the host only if host_reaches_memory().
  virtual std::span<std::byte> memory() = 0;
  virtual bool host_reaches_memory() const = 0;
  // Copies to the device and from the device at the same time; returns when both are done. Either may be
  // empty.
  // REQUIRES: the host's side lies in the executor's host arena.
  // Errors: a GPU's error, with lane and bytes.
  struct Copy {
    std::span<std::byte> to;
    std::span<const std::byte> from;
  };
  virtual Result<void> copy(const Copy& h2d, const Copy& d2h) = 0;
};

// Makes devices of arenas in host memory, with kernels on the pool's cores.
Result<std::unique_ptr<Devices>> take_cpu_devices(const DevicesRequest&);

// A GPU as the driver describes it.
struct GpuFacts {
  std::string name;  // "NVIDIA H200"
  Bytes memory{};
  std::string pci;      // "0000:3b:00.0"
  std::string held_by;  // " python (1234) has 12.30 GiB.": other users of the GPU, as far as known
};

// GpuBackend drives GPUs; a program built with CUDA registers one.
class GpuBackend {
 public:
  virtual ~GpuBackend() = default;
  // RETURNS: all visible GPUs in the driver's order. Starts nothing on them.
  virtual std::vector<GpuFacts> gpus() const = 0;
  // RETURNS: the library that computes attention on a GPU: "cuDNN 9.19.0", "our own kernels", or why our own
  // kernels are used although there is a faster library.
  virtual Result<std::string> attention(u32 gpu) const = 0;
  // RETURNS: the library that exchanges data between GPUs, "NCCL 2.19.3", or why exchange is impossible.
  virtual Result<std::string> exchange() const = 0;
  // RETURNS: why these GPUs cannot be used here, and what to do; empty if they can be used.
  virtual std::string why_none(std::span<const u32> gpus) const = 0;
  // RETURNS: why those of these GPUs that exist cannot compute in this precision; empty if they can.
  virtual std::string why_not_in(Precision, std::span<const u32> gpus) const = 0;
  virtual Result<std::unique_ptr<Devices>> take_devices(const DevicesRequest&) const = 0;
};
// Called at the start of a program, before anything asks for the backend.
// REQUIRES: the backend lives as long as the program.
void register_gpu_backend(const GpuBackend&);
const GpuBackend* gpu_backend();  // null: this program was built without CUDA

}  // namespace tidepool
