// CudaDevices makes GPUs the devices of a run.
#include "executor/cuda/cuda_devices.h"

#include <fmt/format.h>

#include <vector>

#include "executor/cuda/cuda_executor.h"
#include "executor/cuda/cuda_memory.h"
#include "executor/cuda/gpu_processes.h"
#include "executor/devices.h"
#include "executor/gpu_reserved.h"
#include "kernels/cuda/cuda_error.h"
#include "kernels/kernels_cuda.h"
#include "model/block_layouts.h"

namespace tidepool {
namespace {

int capability_of(const cudaDeviceProp& gpu) { return 10 * gpu.major + gpu.minor; }

class CudaDevices final : public Devices {
 public:
  explicit CudaDevices(const DevicesRequest& request)
      : plan_(request.plan), graph_(request.graph), pool_(request.pool) {}

  // Libraries must release a device's resources while that device is current.
  ~CudaDevices() override {
    for (Gpu& gpu : gpus_) {
      if (gpu.device != nullptr) cudaSetDevice(gpu.device->index());
      gpu.kernels.reset();
    }
  }

  Result<void> take(const DevicesRequest& request) {
    const GpuReserved reserved = gpu_reserved(graph_, plan_.micro_batches, plan_.devices);
    CHECK(request.gpus.size() == plan_.devices && reserved.total() == request.reserved, request.gpus.size());
    for (const u32 gpu : request.gpus) TRY(take_one(request, static_cast<int>(gpu), reserved));
    if (plan_.devices == 1) return {};
    CollectivesOptions options;
    for (const Gpu& gpu : gpus_) options.devices.push_back({gpu.device->index(), gpu.staging});
    TRY_ASSIGN(collectives_, Collectives::create(std::move(options)));
    return {};
  }

  std::vector<std::string> describe() const override {
    std::vector<std::string> lines;
    for (const Gpu& gpu : gpus_) lines.push_back(gpu.device->describe());
    if (collectives_) lines.push_back(collectives_->describe());
    for (const Gpu& gpu : gpus_) {
      const bool said = &gpu != &gpus_.front() && gpu.attention == gpus_.front().attention;
      if (!gpu.attention.empty() && !said)
        lines.push_back(fmt::format("attention{}: {}", plan_.devices == 1 ? "" : " on " + gpu.device->name(),
                                    gpu.attention));
    }
    return lines;
  }

  std::vector<std::string> pci() const override {
    std::vector<std::string> all;
    for (const Gpu& gpu : gpus_) all.push_back(gpu.device->pci());
    return all;
  }

  Result<std::unique_ptr<TrainingExecutor>> create_executor(const ExecutorRequest& request) override {
    TRY_ASSIGN(pinned_, PinnedRange::create(request.host_arena));
    const Bytes graphs = gpu_reserved(graph_, plan_.micro_batches, plan_.devices).graphs;
    CudaLanesParts lanes{.devices = {}, .collectives = collectives_.get(), .graphs = graphs};
    for (const Gpu& gpu : gpus_)
      lanes.devices.push_back({.device = gpu.device.get(),
                               .kernels = gpu.kernels.get(),
                               .tuning = gpu.tuning.get(),
                               .numbers = gpu.numbers});
    return create_cuda_executor(plan_, graph_, pool_, lanes, request);
  }

  Kernels& kernels() override {
    cudaSetDevice(first().index());  // another device may be current
    return *gpus_.front().kernels;
  }
  std::span<std::byte> memory() override { return first().frames(); }
  bool host_reaches_memory() const override { return false; }
  // A lost device shows in the first stream that is asked, so the message names both copies.
  Result<void> copy(const Copy& h2d, const Copy& d2h) override {
    const auto doing = [&] {
      return "at rest, " + (h2d.to.empty() ? "" : copying(h2d, LaneKind::h2d)) +
             (h2d.to.empty() || d2h.to.empty() ? "" : " and ") +
             (d2h.to.empty() ? "" : copying(d2h, LaneKind::d2h));
    };
    TRY_CUDA(cudaSetDevice(first().index()), doing());
    TRY_CUDA(start(h2d, cudaMemcpyHostToDevice, first().h2d()), doing());
    TRY_CUDA(start(d2h, cudaMemcpyDeviceToHost, first().d2h()), doing());
    TRY_CUDA(cudaStreamSynchronize(first().h2d()), doing());
    TRY_CUDA(cudaStreamSynchronize(first().d2h()), doing());
    return {};
  }

 private:
  struct Gpu {
    std::unique_ptr<CudaDevice> device;
    std::span<std::byte> numbers, staging;
    std::unique_ptr<Kernels> kernels, tuning;  // tuning may be null
    std::string attention;                     // library that computes attention
  };

  Result<void> take_one(const DevicesRequest& request, int index, const GpuReserved& reserved) {
    const Bytes peak = plan_.tiers[static_cast<u32>(Tier::device)].planned_peak;
    const Bytes frames{round_up((peak - reserved.total()).value, frame_alignment)};
    Gpu& gpu = gpus_.emplace_back();
    TRY_ASSIGN(gpu.device, CudaDevice::open({.index = index,
                                             .frames = frames,
                                             .reserved = reserved.in_arena(),
                                             .pinned = plan_.tiers[static_cast<u32>(Tier::host)].planned_peak,
                                             .devices = plan_.devices,
                                             .ledger = &request.ledger}));
    const std::span<std::byte> beside = gpu.device->reserved();
    gpu.numbers = beside.subspan(reserved.kernels.value, reserved.numbers.value);
    gpu.staging = beside.last(reserved.staging.value);
    TRY_ASSIGN(CudaKernelsMade made, create_cuda_kernels({.stream = gpu.device->compute(),
                                                          .workspace = beside.first(reserved.kernels.value),
                                                          .to_come = attention_to_come(graph_),
                                                          .trial = gpu.device->frames(),
                                                          .choices = request.choices}));
    gpu.kernels = std::move(made.kernels);
    gpu.tuning = std::move(made.tuning);
    gpu.attention = std::move(made.attention);
    return {};
  }
  CudaDevice& first() const { return *gpus_.front().device; }
  static cudaError_t start(const Copy& copy, cudaMemcpyKind kind, cudaStream_t stream) {
    if (copy.to.empty()) return cudaSuccess;
    return cudaMemcpyAsync(copy.to.data(), copy.from.data(), copy.to.size(), kind, stream);
  }
  std::string copying(const Copy& copy, LaneKind lane) const {
    return fmt::format("a copy on {} {} ({:.2f} MiB)", first().name(), tidepool::name(lane),
                       static_cast<double>(copy.to.size()) / static_cast<double>(mib));
  }

  const Plan& plan_;
  const ModelGraph& graph_;
  CorePool& pool_;
  std::vector<Gpu> gpus_;
  std::unique_ptr<Collectives> collectives_;
  std::unique_ptr<PinnedRange> pinned_;
};

class CudaBackend final : public GpuBackend {
 public:
  std::string why_none(std::span<const u32> gpus) const override {
    if (std::string why = why_not(gpus); !why.empty() || gpus.size() < 2) return why;
    const Result<std::string> found = exchange();
    return found ? std::string() : found.error().message;
  }
  std::string why_not_in(Precision precision, std::span<const u32> gpus) const override {
    return tidepool::why_not_in(precision, gpus);
  }
  std::vector<GpuFacts> gpus() const override {
    std::vector<GpuFacts> out;
    for (const cudaDeviceProp& gpu : properties_of_gpus())
      out.push_back({.name = gpu.name,
                     .memory = Bytes{gpu.totalGlobalMem},
                     .pci = pci_of(gpu),
                     .held_by = describe_gpu_processes(gpu)});
    return out;
  }
  Result<std::string> attention(u32 gpu) const override {
    const std::vector<cudaDeviceProp> all = properties_of_gpus();
    return gpu < all.size() ? attention_library(capability_of(all[gpu])) : std::string();
  }
  Result<std::string> exchange() const override {
    TRY_ASSIGN(const std::unique_ptr<NcclLibrary> nccl, NcclLibrary::load());
    return "NCCL " + nccl->version();
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
