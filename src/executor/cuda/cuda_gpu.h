// CudaGpu is a GPU as a device: its memory and streams, kernels on its compute stream, and copies of pinned
// memory on the streams of their lanes.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "executor/cuda/cuda_device.h"
#include "executor/cuda/cuda_memory.h"
#include "executor/device.h"
#include "executor/devices.h"
#include "kernels/kernels_cuda.h"
#include "kernels/matmul/product_choices.h"

namespace tidepool {

struct CudaGpuOptions {
  CudaDeviceOptions device;                    // reserved memory: at least cuda_kernels_workspace
  std::optional<AttentionToCome> attention{};  // as CudaKernelsRequest::to_come
  ProductChoices* choices = nullptr;           // outlives the GPU; null: products are not timed
};

// Each call makes the GPU current, because another GPU of the run may be current.
class CudaGpu final : public MeasuredDevice {
 public:
  // Errors: as CudaDevice::open() and create_cuda_kernels().
  // The reserved memory begins with the kernels' workspace, of cuda_kernels_workspace bytes.
  static Result<std::unique_ptr<CudaGpu>> open(const CudaGpuOptions&);
  // Opens a GPU to be measured. Algorithms of products are chosen for this object alone.
  // Errors: as open(); the host's memory cannot be pinned.
  static Result<std::unique_ptr<CudaGpu>> open_to_measure(const GpuRequest&);
  ~CudaGpu() override;
  CudaGpu(const CudaGpu&) = delete;
  CudaGpu& operator=(const CudaGpu&) = delete;

  // Pins host memory for all GPUs, and lets copies of this GPU use it.
  // REQUIRES: the memory outlives the GPU.
  Result<void> pin(std::span<std::byte> host);
  // Lets copies of this GPU use memory that another GPU has pinned.
  // REQUIRES: the memory stays pinned while this GPU copies.
  void use_pinned(std::span<std::byte> host) { host_ = host; }
  CudaDevice& device() const { return *device_; }
  Kernels* tuning() const { return tuning_.get(); }  // as CudaKernelsMade::tuning

  const DeviceFacts& facts() const override { return facts_; }
  std::span<std::byte> memory() override { return device_->frames(); }
  std::span<std::byte> host_memory() override { return host_; }
  Kernels& kernels() override;
  void copy_h2d(std::span<std::byte> to, std::span<const std::byte> from) override;
  void copy_d2h(std::span<std::byte> to, std::span<const std::byte> from) override;
  Result<void> wait() override;
  void tune(const std::function<void(Kernels&)>& call) override;
  void finish_gradient(const float* accumulator, std::byte* grad, Precision, u64 elements) override;
  void update(const UpdateChunk&, const StateSlots&, Optim, const UpdateScalars*) override;

 private:
  CudaGpu() = default;
  Result<void> take(const CudaGpuOptions&);
  void find_facts(std::string attention);
  CudaDevice& current() const;
  void note(u32 direction, cudaError_t, u64 bytes);
  std::string copying() const;

  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<PinnedRange> pinned_;
  std::span<std::byte> host_;
  ProductChoices own_choices_;  // choices of a GPU that is only measured
  std::unique_ptr<Kernels> kernels_, tuning_;
  DeviceFacts facts_;
  std::array<u64, 2> last_copies_{};  // h2d, d2h: bytes of the last copy since the last wait; 0: none
  Result<void> failure_;              // failure of the first copy that was refused since the last wait
};

}  // namespace tidepool
