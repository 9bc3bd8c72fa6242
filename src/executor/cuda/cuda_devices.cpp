// GPUs as the devices of a run.
#include "executor/cuda/cuda_devices.h"

#include <fmt/format.h>

#include <optional>

#include "executor/cuda/cuda_executor.h"
#include "executor/devices.h"
#include "executor/gpu_reserved.h"
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
  void copy(const Copy& h2d, const Copy& d2h) override {
    cudaSetDevice(device_->index());
    if (!h2d.to.empty())
      cudaMemcpyAsync(h2d.to.data(), h2d.from.data(), h2d.to.size(), cudaMemcpyHostToDevice, device_->h2d());
    if (!d2h.to.empty())
      cudaMemcpyAsync(d2h.to.data(), d2h.from.data(), d2h.to.size(), cudaMemcpyDeviceToHost, device_->d2h());
    cudaStreamSynchronize(device_->h2d());
    cudaStreamSynchronize(device_->d2h());
  }

 private:
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
