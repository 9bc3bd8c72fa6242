// GPUs as the devices of a run.
#include "executor/cuda/cuda_devices.h"

#include <fmt/format.h>

#include <optional>

#include "executor/cuda/cuda_executor.h"
#include "executor/devices.h"
#include "executor/gpu_reserved.h"
#include "kernels/cuda/cuda_error.h"
#include "kernels/kernels_cuda.h"

namespace tidepool {
namespace {

class CudaDevices final : public Devices {
 public:
  explicit CudaDevices(const DevicesRequest& request)
      : plan_(request.plan), graph_(request.graph), pool_(request.pool) {}

  Result<void> take(const DevicesRequest& request) {
    const GpuReserved reserved = gpu_reserved(graph_, plan_.micro_batches);
    CHECK(request.gpus.size() == plan_.devices && reserved.total() == request.reserved, request.gpus.size());
    const Bytes peak = plan_.tiers[static_cast<u32>(Tier::device)].planned_peak;
    const Bytes frames{round_up((peak - reserved.total()).value, frame_alignment)};
    TRY_ASSIGN(device_, CudaDevice::open({.index = static_cast<int>(request.gpus.front()),
                                          .frames = frames,
                                          .reserved = reserved.total(),
                                          .ledger = &request.ledger}));
    numbers_ = device_->reserved().subspan(reserved.kernels.value);
    TRY_ASSIGN(kernels_,
               create_cuda_kernels(device_->compute(), device_->reserved().first(reserved.kernels.value)));
    return {};
  }

  std::vector<std::string> describe() const override { return {device_->describe()}; }

  Result<std::unique_ptr<TrainingExecutor>> create_executor(const ExecutorRequest& request) override {
    TRY_ASSIGN(pinned_, PinnedRange::create(request.host_arena));
    TRY_ASSIGN(std::unique_ptr<CudaExecutor> executor,
               CudaExecutor::create(plan_, graph_,
                                    {.pool = pool_,
                                     .device = *device_,
                                     .kernels = *kernels_,
                                     .numbers = numbers_,
                                     .source = request.source,
                                     .host_arena = request.host_arena,
                                     .staging = request.staging,
                                     .open_disk = request.open_disk,
                                     .disk_depth = request.disk_depth,
                                     .seed = request.seed,
                                     .rest_patience = request.rest_patience}));
    return std::unique_ptr<TrainingExecutor>(std::move(executor));
  }

  Kernels& kernels() override { return *kernels_; }
  std::span<std::byte> memory() override { return device_->frames(); }
  bool host_reaches_memory() const override { return false; }
  // A lost device shows in whichever stream is asked first, so both copies are named.
  Result<void> copy(const Copy& h2d, const Copy& d2h) override {
    const auto doing = [&] {
      return "at rest, " + (h2d.to.empty() ? "" : copying(h2d, LaneKind::h2d)) +
             (h2d.to.empty() || d2h.to.empty() ? "" : " and ") +
             (d2h.to.empty() ? "" : copying(d2h, LaneKind::d2h));
    };
    TRY_CUDA(cudaSetDevice(device_->index()), doing());
    TRY_CUDA(start(h2d, cudaMemcpyHostToDevice, device_->h2d()), doing());
    TRY_CUDA(start(d2h, cudaMemcpyDeviceToHost, device_->d2h()), doing());
    TRY_CUDA(cudaStreamSynchronize(device_->h2d()), doing());
    TRY_CUDA(cudaStreamSynchronize(device_->d2h()), doing());
    return {};
  }

 private:
  static cudaError_t start(const Copy& copy, cudaMemcpyKind kind, cudaStream_t stream) {
    if (copy.to.empty()) return cudaSuccess;
    return cudaMemcpyAsync(copy.to.data(), copy.from.data(), copy.to.size(), kind, stream);
  }
  std::string copying(const Copy& copy, LaneKind lane) const {
    return fmt::format("a copy on {} {} ({:.2f} MiB)", device_->name(), tidepool::name(lane),
                       static_cast<double>(copy.to.size()) / static_cast<double>(mib));
  }

  const Plan& plan_;
  const ModelGraph& graph_;
  CorePool& pool_;
  std::unique_ptr<CudaDevice> device_;
  std::span<std::byte> numbers_;
  std::unique_ptr<Kernels> kernels_;
  std::unique_ptr<PinnedRange> pinned_;
};

class CudaBackend final : public GpuBackend {
 public:
  std::string why_none(std::span<const u32> gpus) const override {
    if (gpus.size() > 1)
      return "several GPUs do not work together yet: machine.executor=cuda:I names one of them";
    return why_no_gpu();
  }
  Result<std::unique_ptr<Devices>> take_devices(const DevicesRequest& request) const override {
    auto devices = std::make_unique<CudaDevices>(request);
    TRY(devices->take(request));
    return std::unique_ptr<Devices>(std::move(devices));
  }
};

}  // namespace

void register_cuda() {
  static const CudaBackend backend;
  register_gpu_backend(backend);
}

}  // namespace tidepool
