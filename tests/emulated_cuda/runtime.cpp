// Errors, devices, and queries by tests.
#include "runtime.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstring>

#include "failure.h"

namespace emulated_cuda {
namespace {

thread_local cudaError_t last_error = cudaSuccess;
thread_local int device_of_thread = 0;

Live live_of(const Runtime& r) {
  Live live = {.streams = r.streams.size(),
               .events = r.events,
               .communicators = r.communicators,
               .graphs = r.graphs,
               .device_bytes = r.graph_bytes,
               .device_bytes_peak = r.device_bytes_peak};
  for (const auto& [address, allocation] : r.memory) {
    ++(allocation.kind == MemoryKind::device ? live.device_allocations : live.host_allocations);
    if (allocation.kind == MemoryKind::device) live.device_bytes += allocation.bytes;
  }
  return live;
}

}  // namespace

Runtime& runtime() {
  static Runtime instance;
  [[maybe_unused]] static const bool placed = (place_libraries({}), true);
  return instance;
}

cudaError_t sticky_error(const Lock&, int device) {
  const auto found = runtime().sticky.find(device);
  return found == runtime().sticky.end() ? cudaSuccess : found->second;
}

cudaError_t entry_error(const Lock& lock) {
  const Runtime& r = runtime();
  if (r.faults.every_call != cudaSuccess) return r.faults.every_call;
  return sticky_error(lock, current_device());
}

cudaError_t returned(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

bool fires(int& countdown) { return countdown > 0 && --countdown == 0; }

int current_device() { return device_of_thread; }

void reset(const Options& options) {
  Runtime& r = runtime();
  Lock lock(r.mutex);
  const Live left = live_of(r);
  if (left.device_allocations + left.host_allocations + left.streams + left.events + left.communicators +
          left.graphs >
      0) {
    fail(
        fmt::format("left over: {} allocations of devices, {} of the host, {} streams, {} events, {} "
                    "communicators, {} graphs",
                    left.device_allocations, left.host_allocations, left.streams, left.events,
                    left.communicators, left.graphs));
  }
  r.options = options;
  place_libraries(options);
  r.faults = {};
  r.sticky.clear();
  r.contexts.clear();
  r.calls.clear();
  r.shared_limits.clear();
  r.loaded.clear();
  r.device_bytes.clear();
  r.device_bytes_peak = 0;
  r.streams_made = r.events_made = 0;
  last_error = cudaSuccess;
  device_of_thread = 0;
}

void set_faults(const Faults& faults) {
  Lock lock(runtime().mutex);
  runtime().faults = faults;
}

void offer_algorithms(double operation_us, std::vector<unsigned> algorithms) {
  Lock lock(runtime().mutex);
  runtime().options.operation_us = operation_us;
  runtime().options.algorithms = std::move(algorithms);
}

void change_card(std::string name, int multiprocessors, std::size_t cublaslt_version) {
  Lock lock(runtime().mutex);
  runtime().options.name = std::move(name);
  runtime().options.multiprocessors = multiprocessors;
  runtime().options.cublaslt_version = cublaslt_version;
}

std::string range_of_failure() {
  Lock lock(runtime().mutex);
  return runtime().range_of_failure;
}

void clear_failure() {
  Lock lock(runtime().mutex);
  runtime().sticky.clear();
}

bool has_context(int device) {
  Lock lock(runtime().mutex);
  return runtime().contexts.contains(device);
}

std::vector<Call> calls() {
  Lock lock(runtime().mutex);
  return runtime().calls;
}

void clear_calls() {
  Lock lock(runtime().mutex);
  runtime().calls.clear();
}

unsigned number_of(cudaStream_t stream) { return stream == nullptr ? 0 : stream->number; }
unsigned number_of(cudaEvent_t event) { return event == nullptr ? 0 : event->number; }

Live live() {
  Lock lock(runtime().mutex);
  return live_of(runtime());
}

}  // namespace emulated_cuda

using namespace emulated_cuda;

cudaError_t cudaGetLastError() {
  const cudaError_t error = cudaPeekAtLastError();
  last_error = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError() {
  Lock lock(runtime().mutex);
  const cudaError_t sticky = entry_error(lock);
  return sticky != cudaSuccess ? sticky : last_error;
}

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define NAMED(e) \
  case e:        \
    return #e;
    NAMED(cudaSuccess)
    NAMED(cudaErrorInvalidValue)
    NAMED(cudaErrorMemoryAllocation)
    NAMED(cudaErrorInitializationError)
    NAMED(cudaErrorInvalidConfiguration)
    NAMED(cudaErrorInsufficientDriver)
    NAMED(cudaErrorInvalidDeviceFunction)
    NAMED(cudaErrorNoDevice)
    NAMED(cudaErrorInvalidDevice)
    NAMED(cudaErrorNoKernelImageForDevice)
    NAMED(cudaErrorECCUncorrectable)
    NAMED(cudaErrorNvlinkUncorrectable)
    NAMED(cudaErrorInvalidResourceHandle)
    NAMED(cudaErrorIllegalState)
    NAMED(cudaErrorNotReady)
    NAMED(cudaErrorIllegalAddress)
    NAMED(cudaErrorLaunchOutOfResources)
    NAMED(cudaErrorLaunchTimeout)
    NAMED(cudaErrorPeerAccessAlreadyEnabled)
    NAMED(cudaErrorAssert)
    NAMED(cudaErrorHostMemoryAlreadyRegistered)
    NAMED(cudaErrorHostMemoryNotRegistered)
    NAMED(cudaErrorHardwareStackError)
    NAMED(cudaErrorIllegalInstruction)
    NAMED(cudaErrorMisalignedAddress)
    NAMED(cudaErrorInvalidAddressSpace)
    NAMED(cudaErrorInvalidPc)
    NAMED(cudaErrorLaunchFailure)
    NAMED(cudaErrorStreamCaptureUnsupported)
    NAMED(cudaErrorStreamCaptureInvalidated)
    NAMED(cudaErrorStreamCaptureIsolation)
    NAMED(cudaErrorCapturedEvent)
    NAMED(cudaErrorStreamCaptureWrongThread)
    NAMED(cudaErrorUnknown)
#undef NAMED
  }
  return "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }

cudaError_t cudaDriverGetVersion(int* version) {
  *version = runtime().options.driver_version;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  Lock lock(runtime().mutex);
  *count = 0;
  if (const cudaError_t error = entry_error(lock); error != cudaSuccess) return returned(error);
  *count = runtime().options.devices;
  return returned(*count == 0 ? cudaErrorNoDevice : cudaSuccess);
}

namespace {

cudaError_t device_error(const Lock& lock, int device) {
  if (const cudaError_t error = entry_error(lock); error != cudaSuccess) return error;
  if (runtime().options.devices == 0) return cudaErrorNoDevice;
  return device < 0 || device >= runtime().options.devices ? cudaErrorInvalidDevice : cudaSuccess;
}

}  // namespace

cudaError_t cudaSetDevice(int device) {
  Lock lock(runtime().mutex);
  if (const cudaError_t error = device_error(lock, device); error != cudaSuccess) return returned(error);
  device_of_thread = device;
  runtime().contexts.emplace(device, 0);
  return cudaSuccess;
}

cudaError_t cudaInitDevice(int device, unsigned device_flags, unsigned flags) {
  if (device_flags != 0 && flags != cudaInitDeviceFlagsAreValid)
    fail("cudaInitDevice passes over its flags unless it is told that they are valid");
  Lock lock(runtime().mutex);
  if (const cudaError_t error = device_error(lock, device); error != cudaSuccess) return returned(error);
  if (const auto [context, made] = runtime().contexts.emplace(device, device_flags);
      !made && context->second != device_flags)
    fail(fmt::format("cudaInitDevice({}) with flags {}: a context with flags {} is there already", device,
                     device_flags, context->second));
  return cudaSuccess;
}

cudaError_t cudaSetDeviceFlags(unsigned) { return cudaSuccess; }

cudaError_t cudaGetDevice(int* device) {
  *device = device_of_thread;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  Lock lock(runtime().mutex);
  if (const cudaError_t error = device_error(lock, device); error != cudaSuccess) return returned(error);
  const Options& o = runtime().options;
  *properties = {.totalGlobalMem = o.device_memory_bytes,
                 .sharedMemPerBlock = static_shared_bytes_max,
                 .sharedMemPerBlockOptin = o.shared_bytes_max,
                 .major = o.major,
                 .minor = o.minor,
                 .multiProcessorCount = o.multiprocessors,
                 .asyncEngineCount = 2,
                 .pciBusID = device + 1};
  std::snprintf(properties->name, sizeof properties->name, "%s", o.name.c_str());
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp p;
  if (const cudaError_t error = cudaGetDeviceProperties(&p, device); error != cudaSuccess) return error;
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      return *value = p.multiProcessorCount, cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      return *value = p.major, cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      return *value = p.minor, cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return *value = static_cast<int>(p.sharedMemPerBlockOptin), cudaSuccess;
  }
  return returned(cudaErrorInvalidValue);
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int bytes, int device) {
  Lock lock(runtime().mutex);
  if (const cudaError_t error = device_error(lock, device); error != cudaSuccess) return returned(error);
  std::snprintf(id, static_cast<std::size_t>(bytes), "0000:%02x:00.0", static_cast<unsigned>(device + 1));
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  *can = device != peer;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  Lock lock(runtime().mutex);
  return returned(device_error(lock, peer));
}
