#include "executor/cuda/cuda_gpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kernels/cuda/cuda_error.h"
#include "kernels/cuda/kernels_cuda_parts.h"
#include "optimizers/optimizers_cuda.h"

namespace tidepool {

Result<std::unique_ptr<CudaGpu>> CudaGpu::open(const CudaGpuOptions& options) {
  std::unique_ptr<CudaGpu> gpu(new CudaGpu);
  TRY(gpu->take(options));
  return gpu;
}

Result<std::unique_ptr<CudaGpu>> CudaGpu::open_to_measure(const GpuRequest& request) {
  std::unique_ptr<CudaGpu> gpu(new CudaGpu);
  TRY(gpu->take({.device = {.index = static_cast<int>(request.gpu),
                            .frames = request.memory,
                            .reserved = cuda_kernels_workspace},
                 .attention = request.attention,
                 .choices = &gpu->own_choices_}));
  TRY(gpu->pin(request.host_memory));
  return gpu;
}

Result<void> CudaGpu::take(const CudaGpuOptions& options) {
  TRY_ASSIGN(device_, CudaDevice::open(options.device));
  TRY_ASSIGN(CudaKernelsMade made,
             create_cuda_kernels({.stream = device_->compute(),
                                  .workspace = device_->reserved().first(cuda_kernels_workspace.value),
                                  .to_come = options.attention,
                                  .trial = device_->frames(),
                                  .choices = options.choices}));
  kernels_ = std::move(made.kernels);
  tuning_ = std::move(made.tuning);
  find_facts(std::move(made.attention));
  return {};
}

// Libraries must release a device's resources while that device is current.
CudaGpu::~CudaGpu() {
  if (device_ == nullptr) return;
  current();
  tuning_.reset();
  kernels_.reset();
}

Result<void> CudaGpu::pin(std::span<std::byte> host) {
  TRY_ASSIGN(pinned_, PinnedRange::create(host));
  use_pinned(host);
  return {};
}

void CudaGpu::find_facts(std::string attention) {
  const cudaDeviceProp& p = device_->properties();
  const std::string_view name = p.name;
  const std::vector<cudaDeviceProp> all = properties_of_gpus();
  const auto alike = std::ranges::count_if(all, [&](const cudaDeviceProp& gpu) { return gpu.name == name; });
  facts_ = {.name = p.name,
            .count = static_cast<u32>(alike),
            .memory = Bytes{p.totalGlobalMem / mib * mib},
            .processors = static_cast<u32>(p.multiProcessorCount),
            .has_bf16 = p.major >= major_of_bf16,
            .attention = std::move(attention)};
}

CudaDevice& CudaGpu::current() const {
  cudaSetDevice(device_->index());
  return *device_;
}

Kernels& CudaGpu::kernels() {
  current();
  return *kernels_;
}

void CudaGpu::tune(const std::function<void(Kernels&)>& call) {
  current();
  if (tuning_) call(*tuning_);
}

void CudaGpu::finish_gradient(const float* accumulator, std::byte* grad, Precision precision, u64 elements) {
  const float* const accumulators[] = {accumulator};
  finish_gradient_cuda(accumulators, grad, precision, elements, current().compute());
}

void CudaGpu::update(const UpdateChunk& chunk, const StateSlots& slots, Optim optim,
                     const UpdateScalars* scalars) {
  update_cuda(chunk, slots.precision(), UpdatePart::whole, optim, scalars, current().compute());
}

void CudaGpu::copy_h2d(std::span<std::byte> to, std::span<const std::byte> from) {
  note(0, cudaMemcpyAsync(to.data(), from.data(), to.size(), cudaMemcpyHostToDevice, current().h2d()),
       to.size());
}
void CudaGpu::copy_d2h(std::span<std::byte> to, std::span<const std::byte> from) {
  note(1, cudaMemcpyAsync(to.data(), from.data(), to.size(), cudaMemcpyDeviceToHost, current().d2h()),
       to.size());
}

void CudaGpu::note(u32 direction, cudaError_t error, u64 bytes) {
  last_copies_[direction] = bytes;
  if (error != cudaSuccess && failure_) failure_ = cuda_error(error, copying());
}

std::string CudaGpu::copying() const {
  std::string text;
  for (u32 direction = 0; direction < last_copies_.size(); ++direction)
    if (last_copies_[direction] > 0)
      text += fmt::format("{} {} (last copy {:.2f} MiB)", text.empty() ? "" : " and",
                          direction == 0 ? "h2d" : "d2h",
                          static_cast<double>(last_copies_[direction]) / static_cast<double>(mib));
  return fmt::format("measuring {}{}", device_->name(), text);
}

// All queues are asked, so that a later wait reports only later work. A lost GPU shows in the first queue
// that is asked: the message names both directions that copied.
Result<void> CudaGpu::wait() {
  const CudaDevice& gpu = current();
  Result<void> first = std::exchange(failure_, {});
  const cudaStream_t streams[] = {gpu.h2d(), gpu.d2h()};
  for (u32 direction = 0; direction < last_copies_.size(); ++direction) {
    if (last_copies_[direction] == 0) continue;
    const cudaError_t error = cudaStreamSynchronize(streams[direction]);
    if (error != cudaSuccess && first) first = cuda_error(error, copying());
  }
  last_copies_ = {};
  const Result<void> computed = kernels_->finish();
  if (!computed && first)
    first = Error{computed.error().kind,
                  fmt::format("measuring {} compute: {}", gpu.name(), computed.error().message)};
  return first;
}

}  // namespace tidepool
