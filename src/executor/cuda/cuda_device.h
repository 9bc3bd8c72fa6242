// One GPU of a run: its memory, taken once, and a stream for each of its lanes.
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/arena.h"
#include "machine/nvml.h"
#include "tidepool/chunk.h"

namespace tidepool {

struct CudaDeviceOptions {
  int index = 0;                  // as CUDA counts: CUDA_VISIBLE_DEVICES chooses and orders
  Bytes frames{};                 // of the plan
  Bytes reserved{};               // beside them: workspaces, a step's numbers
  Bytes pinned{};                 // host memory that the device will reach
  u32 devices = 1;                // of the run
  ArenaLedger* ledger = nullptr;  // must outlive the device
  Pids pids = pids_of_driver();   // by which the driver names who uses a GPU
};

class CudaDevice {
 public:
  // Errors: no driver, one too old, no such device, one older than sm_70 (ErrorKind::usage); memory
  // that is not free, with who has how much of it (ErrorKind::does_not_fit).
  static Result<std::unique_ptr<CudaDevice>> open(const CudaDeviceOptions&);
  ~CudaDevice();  // after all streams have ended
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  int index() const { return options_.index; }
  std::string name() const { return "cuda:" + std::to_string(options_.index); }
  std::span<std::byte> frames() const { return memory_.first(options_.frames.value); }
  std::span<std::byte> reserved() const { return memory_.last(options_.reserved.value); }
  cudaStream_t compute() const { return compute_; }
  cudaStream_t h2d() const { return h2d_; }
  cudaStream_t d2h() const { return d2h_; }
  const cudaDeviceProp& properties() const { return properties_; }
  std::string pci() const;  // "0000:3b:00.0"
  // "cuda:0: NVIDIA H200, 20.0 GiB of 139.8 GiB": one line for people.
  std::string describe() const;

 private:
  explicit CudaDevice(const CudaDeviceOptions& options) : options_(options) {}
  Result<void> select();
  Result<void> take_memory();
  Result<void> create_streams();

  const CudaDeviceOptions options_;
  cudaDeviceProp properties_{};
  // Who else: by pids of the host as it was before our context, else as it is when memory is short.
  std::string held_by_;
  std::span<std::byte> memory_;
  cudaStream_t compute_ = nullptr, h2d_ = nullptr, d2h_ = nullptr;
};

// Makes the GPU's context, and the GPU the calling thread's. Threads that wait for it then sleep, as cores
// are for Adam: to be said before anything else makes the context.
Result<void> start_gpu(int index);
// Why no GPU can be used here, in words that say what to do; empty where one can.
std::string why_no_gpu();
// Why one of these is not to be had; empty where all are.
std::string why_not(std::span<const u32> gpus);
// Why one of them, if it is there, does not compute in a precision; empty where all do.
std::string why_not_in(Precision, std::span<const u32> gpus);
// From Ampere on: neither tensor cores nor cuBLASLt take bf16 before.
inline constexpr int major_of_bf16 = 8;
// Of all there are; empty where CUDA cannot tell.
std::vector<cudaDeviceProp> properties_of_gpus();
std::string pci_of(const cudaDeviceProp&);  // "0000:3b:00.0"

}  // namespace tidepool
