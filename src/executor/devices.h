// The devices of a run, whatever they are made of: their memory, taken once, what computes on them, and the
// executor that drives them.
#pragma once

#include <functional>
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

// All must outlive the devices.
struct DevicesRequest {
  const Plan& plan;
  const ModelGraph& graph;
  CorePool& pool;
  ArenaLedger& ledger;
  Bytes reserved{};       // of each device's memory, at its end: no frames lie there
  std::vector<u32> gpus;  // by device: as the driver counts them
  // Algorithms of matrix products on GPUs: one that is not known is chosen by a clock when the executor is
  // created, and added. Null: nothing is chosen.
  ProductChoices* choices = nullptr;
};

struct ExecutorRequest {
  StepSource& source;               // outlives the executor
  std::span<std::byte> host_arena;  // the frames of the host, and more
  std::span<std::byte> staging;  // of it, a multiple of 8 KiB, page-aligned: transfers at rest go through it
  OpenDisk open_disk;            // empty: the plan uses no disk
  u32 disk_depth = 32;           // requests in flight per disk lane
  u64 seed = 0;                  // of dropout
  Nanos rest_patience{300'000'000'000};  // how long a piece of a transfer at rest may take
  // Called by GPUs' executors once matrix products are tuned, before anything else starts. Empty: no-op.
  std::function<void()> products_tuned = {};
};

class Devices {
 public:
  virtual ~Devices() = default;

  // One line each, for people.
  virtual std::vector<std::string> describe() const = 0;
  // Of those on a bus, their addresses ("0000:3b:00.0"): memory near them is reached at full rate.
  virtual std::vector<std::string> pci() const { return {}; }
  // The one executor. The devices must outlive it.
  virtual Result<std::unique_ptr<TrainingExecutor>> create_executor(const ExecutorRequest&) = 0;

  // ---- of the first device, while no op is in flight: to measure

  virtual Kernels& kernels() = 0;
  // Where its frames lie. Kernels can reach it; the host only if it says so.
  virtual std::span<std::byte> memory() = 0;
  virtual bool host_reaches_memory() const = 0;
  // Copies to the device and from it at once, and returns when both are done; either may be empty. The host's
  // side lies in the executor's host arena. Error: what a GPU says, with lane and bytes.
  struct Copy {
    std::span<std::byte> to;
    std::span<const std::byte> from;
  };
  virtual Result<void> copy(const Copy& h2d, const Copy& d2h) = 0;
};

// Arenas in host memory, and kernels on the pool's cores.
Result<std::unique_ptr<Devices>> take_cpu_devices(const DevicesRequest&);

// A GPU as the driver tells of it.
struct GpuFacts {
  std::string name;  // "NVIDIA H200"
  Bytes memory{};
  std::string pci;      // "0000:3b:00.0"
  std::string held_by;  // " python (1234) has 12.30 GiB.": who else uses it, as far as is known
};

// What a program brings that was built with CUDA.
class GpuBackend {
 public:
  virtual ~GpuBackend() = default;
  // All that can be asked for, in the driver's order; nothing is started on them.
  virtual std::vector<GpuFacts> gpus() const = 0;
  // What makes attention on one of them: "cuDNN 9.19.0", "our own kernels", or why those although there is a
  // faster library.
  virtual Result<std::string> attention(u32 gpu) const = 0;
  // Through what several of them exchange data: "NCCL 2.19.3", or why they cannot.
  virtual Result<std::string> exchange() const = 0;
  // Why these GPUs cannot be used here, in words that say what to do; empty where they may be.
  virtual std::string why_none(std::span<const u32> gpus) const = 0;
  // Likewise why not in this precision, of those of them that are there.
  virtual std::string why_not_in(Precision, std::span<const u32> gpus) const = 0;
  virtual Result<std::unique_ptr<Devices>> take_devices(const DevicesRequest&) const = 0;
};
// Called at the start of a program, before anything asks; the backend lives as long as the program.
void register_gpu_backend(const GpuBackend&);
const GpuBackend* gpu_backend();  // null: this program was built without

}  // namespace tidepool
