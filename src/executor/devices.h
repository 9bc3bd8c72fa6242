// Devices are the devices of a run, on any hardware: their memory, taken once, their kernels, and the
// executor that drives them.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "executor/device.h"
#include "executor/shared/training_executor.h"
#include "io/arena.h"
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

  // Device `number`, for measurements at rest: its memory is that of the device's frames, and its host memory
  // is the executor's host arena, empty before create_executor(). REQUIRES: number < devices of the plan; no
  // op is in flight while the device is used.
  virtual Device& at(u32 number) = 0;
  // Devices of a run are alike: GPUs of one kind, or the cores.
  bool are_gpus() { return at(0).facts().gpu; }
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

// GpuRequest asks for a GPU to measure.
struct GpuRequest {
  u32 gpu = 0;                                 // the driver's number
  Bytes memory{};                              // memory of the device: a multiple of frame_alignment
  std::span<std::byte> host_memory;            // whole pages, which are pinned; outlives the device
  std::optional<AttentionToCome> attention{};  // attention that a library may compute
};

// GpuBackend is everything that the program asks of GPUs, to describe, run and measure them; a program built
// with CUDA registers one.
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
  // RETURNS: why these GPUs cannot be used here, and what to do; empty if they can be used, each by itself.
  virtual std::string why_none(std::span<const u32> gpus) const = 0;
  // RETURNS: why those of these GPUs that exist cannot compute in this precision; empty if they can.
  virtual std::string why_not_in(Precision, std::span<const u32> gpus) const = 0;
  virtual Result<std::unique_ptr<Devices>> take_devices(const DevicesRequest&) const = 0;
  // RETURNS: the most memory that open() can give now. Starts the GPU.
  virtual Result<Bytes> free_memory(u32 gpu) const = 0;
  virtual Result<std::unique_ptr<MeasuredDevice>> open(const GpuRequest&) const = 0;
};
// Called at the start of a program, before anything asks for the backend.
// REQUIRES: the backend lives as long as the program.
void register_gpu_backend(const GpuBackend&);
const GpuBackend* gpu_backend();  // null: this program was built without CUDA

}  // namespace tidepool
