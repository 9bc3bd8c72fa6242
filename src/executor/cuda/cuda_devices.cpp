// CudaDevices makes GPUs the devices of a run.
#include "executor/cuda/cuda_devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "executor/cuda/cuda_executor.h"
#include "executor/cuda/cuda_gpu.h"
#include "executor/cuda/gpu_processes.h"
#include "executor/devices.h"
#include "executor/gpu_reserved.h"
#include "kernels/cuda/cuda_error.h"
#include "kernels/kernels_cuda.h"
#include "model/attention.h"

namespace tidepool {
namespace {

int capability_of(const cudaDeviceProp& gpu) { return 10 * gpu.major + gpu.minor; }

class CudaDevices final : public Devices {
 public:
  explicit CudaDevices(const DevicesRequest& request)
      : plan_(request.plan), graph_(request.graph), pool_(request.pool) {}

  Result<void> take(const DevicesRequest& request) {
    GpuReserved reserved = gpu_reserved(graph_, plan_.micro_batches, plan_.devices);
    CHECK(request.gpus.size() == plan_.devices && reserved.total() <= request.reserved, request.gpus.size());
    // Plans reserve for training. Evaluation freezes all windows, whose norm then needs no partials.
    reserved.numbers += request.reserved - reserved.total();
    for (const u32 gpu : request.gpus) TRY(take_one(request, static_cast<int>(gpu), reserved));
    if (plan_.replicas() == 1) return {};
    CollectivesOptions options;
    for (const Part& part : parts_) options.devices.push_back({part.gpu->device().index(), part.staging});
    TRY_ASSIGN(collectives_, Collectives::create(std::move(options)));
    return {};
  }

  std::vector<std::string> describe() const override {
    std::vector<std::string> lines;
    for (const Part& part : parts_) lines.push_back(part.gpu->device().describe());
    if (collectives_) lines.push_back(collectives_->describe());
    const std::string& of_first = parts_.front().gpu->facts().attention;
    for (const Part& part : parts_) {
      const std::string& attention = part.gpu->facts().attention;
      const bool said = &part != &parts_.front() && attention == of_first;
      if (!attention.empty() && !said)
        lines.push_back(fmt::format("attention{}: {}",
                                    plan_.devices == 1 ? "" : " on " + part.gpu->device().name(), attention));
    }
    return lines;
  }

  std::vector<std::string> pci() const override {
    std::vector<std::string> all;
    for (const Part& part : parts_) all.push_back(part.gpu->device().pci());
    return all;
  }

  Result<std::unique_ptr<TrainingExecutor>> create_executor(const ExecutorRequest& request) override {
    TRY(parts_.front().gpu->pin(request.host_arena));
    for (const Part& part : parts_) part.gpu->use_pinned(request.host_arena);
    const Bytes graphs = gpu_reserved(graph_, plan_.micro_batches, plan_.devices).graphs;
    CudaLanesParts lanes{.devices = {}, .collectives = collectives_.get(), .graphs = graphs};
    for (const Part& part : parts_)
      lanes.devices.push_back({.device = &part.gpu->device(),
                               .kernels = &part.gpu->kernels(),
                               .tuning = part.gpu->tuning(),
                               .numbers = part.numbers});
    return create_cuda_executor(plan_, graph_, pool_, lanes, request);
  }

  Device& at(u32 number) override { return *parts_.at(number).gpu; }

 private:
  struct Part {
    std::unique_ptr<CudaGpu> gpu;
    std::span<std::byte> numbers, staging;
  };

  Result<void> take_one(const DevicesRequest& request, int index, const GpuReserved& reserved) {
    const Bytes peak = plan_.tiers[static_cast<u32>(Tier::device)].planned_peak;
    const Bytes frames{round_up((peak - reserved.total()).value, frame_alignment)};
    Part& part = parts_.emplace_back();
    TRY_ASSIGN(part.gpu,
               CudaGpu::open({.device = {.index = index,
                                         .frames = frames,
                                         .reserved = reserved.in_arena(),
                                         .pinned = plan_.tiers[static_cast<u32>(Tier::host)].planned_peak,
                                         .devices = plan_.devices,
                                         .ledger = &request.ledger},
                              .attention = attention_to_come(graph_),
                              .choices = request.choices}));
    const std::span<std::byte> beside = part.gpu->device().reserved();
    part.numbers = beside.subspan(reserved.kernels.value, reserved.numbers.value);
    part.staging = beside.last(reserved.staging.value);
    return {};
  }

  const Plan& plan_;
  const ModelGraph& graph_;
  CorePool& pool_;
  std::vector<Part> parts_;
  std::unique_ptr<Collectives> collectives_;
};

class CudaBackend final : public GpuBackend {
 public:
  std::string why_none(std::span<const u32> gpus) const override { return why_not(gpus); }
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
  Result<Bytes> free_memory(u32 gpu) const override {
    TRY(start_gpu(static_cast<int>(gpu)));
    std::size_t free = 0, total = 0;
    TRY_CUDA(cudaMemGetInfo(&free, &total), fmt::format("asking how much memory cuda:{} has", gpu));
    const u64 usable = free - std::min<u64>(free, cuda_kernels_workspace.value);
    return Bytes{usable / frame_alignment * frame_alignment};
  }
  Result<std::unique_ptr<MeasuredDevice>> open(const GpuRequest& request) const override {
    TRY_ASSIGN(auto gpu, CudaGpu::open_to_measure(request));
    return std::unique_ptr<MeasuredDevice>(std::move(gpu));
  }
};

}  // namespace

void register_cuda() {
  static const CudaBackend backend;
  register_gpu_backend(backend);
}

}  // namespace tidepool
