// MeasuredGpu is a GPU to measure, made of the parts that runs use: the executor's device, its kernels on the
// compute stream, copies of pinned memory on the streams of their lanes.
#include "probe/cuda/measured_gpu.h"

#include <fmt/format.h>

#include <cstring>
#include <functional>

#include "executor/cuda/cuda_device.h"
#include "executor/cuda/cuda_memory.h"
#include "io/arena.h"
#include "kernels/cuda/cuda_error.h"
#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/kernels_cuda.h"
#include "probe/measured_device.h"

namespace tidepool {
namespace {

// AdamNumbers is the input of adamw() on the GPU beside the chunk's arrays.
struct AdamNumbers {
  AdamWScalars scalars;
  DecaySegment whole;
};
constexpr u64 numbers_bytes = round_up(sizeof(AdamNumbers), frame_alignment);

class MeasuredGpu final : public MeasuredDevice {
 public:
  Result<void> open(const MeasureRequest& request) {
    const Bytes reserved{round_up(cuda_kernels_workspace.value + numbers_bytes, frame_alignment)};
    TRY_ASSIGN(device_, CudaDevice::open({.index = static_cast<int>(request.index),
                                          .frames = request.memory,
                                          .reserved = reserved}));
    TRY_ASSIGN(host_, Arena::create({.name = "host", .bytes = request.host_memory, .pool = &request.pool}));
    TRY_ASSIGN(pinned_, PinnedRange::create(host_->memory()));
    TRY_ASSIGN(CudaKernelsMade made,
               create_cuda_kernels({.stream = device_->compute(),
                                    .workspace = device_->reserved().first(cuda_kernels_workspace.value),
                                    .to_come = request.attention,
                                    .trial = device_->frames(),
                                    .choices = &choices_}));
    kernels_ = std::move(made.kernels);
    tuning_ = std::move(made.tuning);
    numbers_ = reinterpret_cast<AdamNumbers*>(device_->reserved().data() + cuda_kernels_workspace.value);
    find_facts();
    facts_.attention = std::move(made.attention);
    return bring_numbers();
  }

  const MeasuredFacts& facts() const override { return facts_; }
  std::span<std::byte> memory() override { return device_->frames(); }
  std::span<std::byte> host_memory() override { return host_->memory(); }
  Kernels& kernels() override { return *kernels_; }
  void tune(const std::function<void(Kernels&)>& call) override { call(*tuning_); }

  void finish_gradient(const float* accumulator, std::byte* grad, Precision precision,
                       u64 elements) override {
    const float* const accumulators[] = {accumulator};
    finish_gradient_cuda(accumulators, grad, precision, elements, device_->compute());
  }
  // The whole chunk decays. Its length comes from the kernel's argument, not from the segment.
  void adamw(const AdamWChunk& chunk, Precision precision) override {
    AdamWChunk decayed = chunk;
    decayed.segments = {&numbers_->whole, 1};
    adamw_cuda(decayed, precision, &numbers_->scalars, device_->compute());
  }
  void copy_h2d(std::span<std::byte> to, std::span<const std::byte> from) override {
    note(cudaMemcpyAsync(to.data(), from.data(), to.size(), cudaMemcpyHostToDevice, device_->h2d()), "h2d",
         to.size());
  }
  void copy_d2h(std::span<std::byte> to, std::span<const std::byte> from) override {
    note(cudaMemcpyAsync(to.data(), from.data(), to.size(), cudaMemcpyDeviceToHost, device_->d2h()), "d2h",
         to.size());
  }

  Result<void> wait() override {
    Result<void> first = std::exchange(failure_, {});
    const auto doing = [&](const char* lane) {
      return fmt::format("measuring {} {}, the last copy of {:.2f} MiB", device_->name(), lane,
                         static_cast<double>(last_bytes_) / static_cast<double>(mib));
    };
    const Result<void> computed = kernels_->finish();
    if (first && !computed)
      first = Error{computed.error().kind,
                    fmt::format("measuring {} compute: {}", device_->name(), computed.error().message)};
    TRY(first);
    TRY_CUDA(cudaStreamSynchronize(device_->h2d()), doing("h2d"));
    TRY_CUDA(cudaStreamSynchronize(device_->d2h()), doing("d2h"));
    return {};
  }

 private:
  void note(cudaError_t error, const char* lane, u64 bytes) {
    last_bytes_ = bytes;
    if (error != cudaSuccess && failure_)
      failure_ = cuda_error(error, fmt::format("measuring {} {}, a copy of {:.2f} MiB", device_->name(), lane,
                                               static_cast<double>(bytes) / static_cast<double>(mib)));
  }

  void find_facts() {
    const cudaDeviceProp& p = device_->properties();
    facts_ = {.name = p.name,
              .count = 0,
              .memory = Bytes{p.totalGlobalMem / mib * mib},
              .processors = static_cast<u32>(p.multiProcessorCount),
              .has_bf16 = p.major >= major_of_bf16};
    int count = 0;
    cudaGetDeviceCount(&count);
    for (int i = 0; i < count; ++i) {
      cudaDeviceProp other;
      if (cudaGetDeviceProperties(&other, i) == cudaSuccess)
        facts_.count += std::strcmp(other.name, p.name) == 0;
    }
  }

  Result<void> bring_numbers() {
    const AdamNumbers numbers{.scalars = adamw_scalars({.learning_rate = 1e-3}, 100, 1.0, 1.0),
                              .whole = {0, ~u64{0}, true}};
    std::memcpy(host_->memory().data(), &numbers, sizeof numbers);
    TRY_CUDA(cudaMemcpyAsync(numbers_, host_->memory().data(), sizeof numbers, cudaMemcpyHostToDevice,
                             device_->h2d()),
             "copying Adam's numbers to " + device_->name());
    return wait();
  }

  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<Arena> host_;
  std::unique_ptr<PinnedRange> pinned_;
  ProductChoices choices_;  // for this process only: the benchmark measures the best algorithms
  std::unique_ptr<Kernels> kernels_, tuning_;
  AdamNumbers* numbers_ = nullptr;  // on the GPU
  MeasuredFacts facts_;
  Result<void> failure_;
  u64 last_bytes_ = 0;
};

class CudaGpus final : public MeasuredGpus {
 public:
  std::string why_none(u32 index) const override {
    const std::string none_at_all = why_no_gpu();
    int count = 0;
    if (!none_at_all.empty() || cudaGetDeviceCount(&count) != cudaSuccess) return none_at_all;
    if (index < static_cast<u32>(count)) return {};
    return fmt::format(
        "there is no cuda:{}: CUDA sees {} GPU{} (counted from 0; CUDA_VISIBLE_DEVICES hides some)", index,
        count, count == 1 ? "" : "s");
  }
  Result<Bytes> free_memory(u32 index) const override {
    const std::string doing = fmt::format("asking how much memory cuda:{} has", index);
    std::size_t free = 0, total = 0;
    TRY(start_gpu(static_cast<int>(index)));
    TRY_CUDA(cudaMemGetInfo(&free, &total), doing);
    const u64 beside = cuda_kernels_workspace.value + numbers_bytes + frame_alignment;
    return Bytes{free > beside ? (free - beside) / frame_alignment * frame_alignment : 0};
  }
  Result<std::unique_ptr<MeasuredDevice>> open(const MeasureRequest& request) const override {
    auto gpu = std::make_unique<MeasuredGpu>();
    TRY(gpu->open(request));
    return std::unique_ptr<MeasuredDevice>(std::move(gpu));
  }
};

}  // namespace

void register_cuda_measurements() {
  static const CudaGpus gpus;
  register_measured_gpus(gpus);
}

}  // namespace tidepool
