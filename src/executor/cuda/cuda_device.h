// CudaDevice is one GPU of a run: its memory, taken once, and a stream for each of its lanes.
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
  int index = 0;                  // CUDA's device number: CUDA_VISIBLE_DEVICES chooses and orders
  Bytes frames{};                 // memory of the plan's frames
  Bytes reserved{};               // memory beside the frames: workspaces, a step's numbers
  Bytes pinned{};                 // host memory that the device will access
  u32 devices = 1;                // number of devices in the run
  ArenaLedger* ledger = nullptr;  // must outlive the device
  Pids pids = pids_of_driver();   // pid namespace in which the driver names other users of the GPU
};

class CudaDevice {
 public:
  // Errors: no driver, driver too old, no such device, device older than sm_70 (ErrorKind::usage); memory
  // that is not free, with its holders and their shares (ErrorKind::does_not_fit).
  static Result<std::unique_ptr<CudaDevice>> open(const CudaDeviceOptions&);
  ~CudaDevice();  // REQUIRES: all streams have ended
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
  // One line for people: "cuda:0: NVIDIA H200, 20.0 GiB of 139.8 GiB".
  std::string describe() const;

 private:
  explicit CudaDevice(const CudaDeviceOptions& options) : options_(options) {}
  Result<void> select();
  Result<void> take_memory();
  Result<void> create_streams();

  const CudaDeviceOptions options_;
  cudaDeviceProp properties_{};
  // Other users of the GPU: with pids of the host, taken before our context exists; otherwise when memory is
  // short.
  std::string held_by_;
  std::span<std::byte> memory_;
  cudaStream_t compute_ = nullptr, h2d_ = nullptr, d2h_ = nullptr;
};

// Creates the GPU's context and selects the GPU for the calling thread. Threads that wait for the GPU will
// sleep, because the cores belong to updates.
// REQUIRES: nothing else has created the context yet.
Result<void> start_gpu(int index);
// RETURNS: why no GPU can be used here, and what to do; empty if a GPU can be used.
std::string why_no_gpu();
// RETURNS: why a GPU of these is unavailable; empty if all are available.
std::string why_not(std::span<const u32> gpus);
// RETURNS: why a GPU of these, if it exists, cannot compute in this precision; empty if all can.
std::string why_not_in(Precision, std::span<const u32> gpus);
// Ampere and later: before, neither tensor cores nor cuBLASLt support bf16.
inline constexpr int major_of_bf16 = 8;
// RETURNS: properties of all GPUs; empty if CUDA cannot list them.
std::vector<cudaDeviceProp> properties_of_gpus();
std::string pci_of(const cudaDeviceProp&);  // "0000:3b:00.0"

}  // namespace tidepool
