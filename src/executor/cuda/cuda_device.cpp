#include "executor/cuda/cuda_device.h"

#include <fmt/format.h>

#include "executor/cuda/gpu_processes.h"
#include "kernels/cuda/cuda_error.h"
#include "machine/gpu_headroom.h"

namespace tidepool {
namespace {

constexpr int major_least = 7;

double gib_of(u64 bytes) { return static_cast<double>(bytes) / static_cast<double>(gib); }

std::string version(int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); }

// Adds the versions of driver and toolkit, which any bug report needs first.
Error with_versions(cudaError_t error, const std::string& doing) {
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  if (driver == 0)
    return {ErrorKind::usage, "no NVIDIA driver is loaded, so there is no GPU to use: install one"};
  return cuda_error(error, fmt::format("{} (the driver knows CUDA {}, the toolkit is {})", doing,
                                       version(driver), version(runtime)));
}

// RETURNS: empty if the GPU exists.
std::string no_such_gpu(int index, int count) {
  if (index < count) return {};
  return fmt::format(
      "there is no cuda:{}: CUDA sees {} GPU{} (counted from 0; CUDA_VISIBLE_DEVICES hides some)", index,
      count, count == 1 ? "" : "s");
}

}  // namespace

std::string why_no_gpu() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count > 0) return {};
  return with_versions(error == cudaSuccess ? cudaErrorNoDevice : error, "looking for GPUs").message;
}

std::string why_not(std::span<const u32> gpus) {
  if (std::string why = why_no_gpu(); !why.empty()) return why;
  int count = 0;
  cudaGetDeviceCount(&count);
  for (const u32 gpu : gpus)
    if (std::string none = no_such_gpu(static_cast<int>(gpu), count); !none.empty()) return none;
  return {};
}

// A GPU older than sm_70 is refused in every precision, when it is opened.
std::string why_not_in(Precision precision, std::span<const u32> gpus) {
  if (precision != Precision::bf16) return {};
  const std::vector<cudaDeviceProp> all = properties_of_gpus();
  for (const u32 gpu : gpus) {
    if (gpu >= all.size() || all[gpu].major < major_least || all[gpu].major >= major_of_bf16) continue;
    return fmt::format(
        "cuda:{} ({}) has no bf16 (compute capability {}.{}; {}.0 is the first): set train.precision=fp16, "
        "which keeps fp32 masters in training, or machine.executor=cpu",
        gpu, all[gpu].name, all[gpu].major, all[gpu].minor, major_of_bf16);
  }
  return {};
}

Result<void> start_gpu(int index) {
  const std::string name = fmt::format("cuda:{}", index);
  if (const cudaError_t error =
          cudaInitDevice(index, cudaDeviceScheduleBlockingSync, cudaInitDeviceFlagsAreValid);
      error != cudaSuccess)
    return with_versions(error, "starting " + name);
  TRY_CUDA(cudaSetDevice(index), "using " + name);
  return {};
}

std::vector<cudaDeviceProp> properties_of_gpus() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) return {};
  std::vector<cudaDeviceProp> all(static_cast<u64>(count));
  for (int i = 0; i < count; ++i)
    if (cudaGetDeviceProperties(&all[static_cast<u64>(i)], i) != cudaSuccess) return {};
  return all;
}

std::string pci_of(const cudaDeviceProp& gpu) {
  return fmt::format("{:04x}:{:02x}:{:02x}.0", gpu.pciDomainID, gpu.pciBusID, gpu.pciDeviceID);
}

Result<std::unique_ptr<CudaDevice>> CudaDevice::open(const CudaDeviceOptions& options) {
  std::unique_ptr<CudaDevice> device(new CudaDevice(options));
  TRY(device->select());
  TRY(device->create_streams());
  TRY(device->take_memory());
  return device;
}

Result<void> CudaDevice::select() {
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess)
    return with_versions(error, "looking for GPUs");
  if (count == 0) return with_versions(cudaErrorNoDevice, "looking for GPUs");
  if (std::string none = no_such_gpu(options_.index, count); !none.empty())
    return Error{ErrorKind::usage, none};
  TRY_CUDA(cudaGetDeviceProperties(&properties_, options_.index), "asking what " + name() + " is");
  if (properties_.major < major_least)
    return Error{ErrorKind::usage,
                 fmt::format("{} ({}) has compute capability {}.{}; 7.0 (V100) is the least that works here. "
                             "machine.executor=cpu trains on the CPU",
                             name(), properties_.name, properties_.major, properties_.minor)};
  if (options_.pids == Pids::of_the_host) held_by_ = describe_gpu_processes(properties_, options_.pids);
  return start_gpu(options_.index);
}

Result<void> CudaDevice::take_memory() {
  const u64 bytes = options_.frames.value + options_.reserved.value;
  const GpuHeadroom headroom = gpu_headroom(options_.pinned, options_.devices);
  std::size_t free = 0, total = 0;
  TRY_CUDA(cudaMemGetInfo(&free, &total), "asking how much memory " + name() + " has");
  if (free < bytes + headroom.total().value) {
    if (options_.pids == Pids::ours) held_by_ = describe_gpu_processes(properties_, options_.pids);
    return Error{
        ErrorKind::does_not_fit,
        fmt::format(
            "{} ({}) has {:.2f} GiB free of {:.2f} GiB, and this run needs {:.2f} GiB, and {}.{} Lower "
            "memory.device, or end other programs on it",
            name(), properties_.name, gib_of(free), gib_of(total), gib_of(bytes),
            headroom_text(headroom, options_.pinned), held_by_)};
  }
  void* begin = nullptr;
  TRY_CUDA(cudaMalloc(&begin, bytes), fmt::format("taking {:.2f} GiB of {}", gib_of(bytes), name()));
  memory_ = {static_cast<std::byte*>(begin), bytes};
  if (options_.ledger != nullptr) options_.ledger->take(name(), Bytes{bytes});
  return {};
}

// Non-blocking streams: copies must not wait for kernels of the default stream, nor those kernels for copies.
Result<void> CudaDevice::create_streams() {
  for (cudaStream_t* const stream : {&compute_, &h2d_, &d2h_})
    TRY_CUDA(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), "making a stream on " + name());
  return {};
}

CudaDevice::~CudaDevice() {
  for (const cudaStream_t stream : {compute_, h2d_, d2h_})
    if (stream != nullptr) cudaStreamDestroy(stream);
  if (memory_.empty()) return;
  cudaFree(memory_.data());
  if (options_.ledger != nullptr) options_.ledger->give_back(name(), Bytes{memory_.size()});
}

std::string CudaDevice::pci() const { return pci_of(properties_); }

std::string CudaDevice::describe() const {
  return fmt::format("{}: {}, {:.2f} GiB of {:.2f} GiB", name(), properties_.name, gib_of(memory_.size()),
                     gib_of(properties_.totalGlobalMem));
}

}  // namespace tidepool
