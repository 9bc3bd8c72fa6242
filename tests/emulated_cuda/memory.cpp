// Allocations with red zones and poison, and copies between them.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "failure.h"
#include "runtime.h"

namespace emulated_cuda {
namespace {

constexpr std::size_t zone_bytes = 256;  // also the alignment of cudaMalloc
constexpr int poison_byte = 0xff;

std::byte* pointer_of(std::uintptr_t address) { return reinterpret_cast<std::byte*>(address); }
std::uintptr_t address_of(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }
std::size_t padded(std::size_t bytes) { return (bytes + zone_bytes - 1) / zone_bytes * zone_bytes; }

// 0xfffb at even addresses: a NaN in every precision, different from the poison of unwritten memory.
std::byte zone_byte(const std::byte* at) {
  return address_of(at) % 2 == 0 ? std::byte{0xfb} : std::byte{0xff};
}

bool clean(const std::byte* zone, std::size_t bytes) {
  for (const std::byte* at = zone; at < zone + bytes; ++at)
    if (*at != zone_byte(at)) return false;
  return true;
}

void make_zone(std::byte* zone, std::size_t bytes) {
  for (std::byte* at = zone; at < zone + bytes; ++at) *at = zone_byte(at);
}

void check_zones(std::uintptr_t address, const Allocation& a) {
  if (a.kind == MemoryKind::registered) return;
  const std::byte* begin = pointer_of(address);
  if (!clean(begin - zone_bytes, zone_bytes))
    fail(fmt::format("something wrote before an allocation of {} bytes", a.bytes));
  if (!clean(begin + a.bytes, padded(a.bytes) - a.bytes + zone_bytes)) {
    fail(fmt::format("something wrote behind an allocation of {} bytes", a.bytes));
  }
}

// Layout: red zone, bytes rounded up to a multiple of the zone, red zone.
void* allocate(std::size_t bytes, MemoryKind kind) {
  auto* base = static_cast<std::byte*>(std::aligned_alloc(zone_bytes, padded(bytes) + 2 * zone_bytes));
  if (base == nullptr) return nullptr;
  std::byte* begin = base + zone_bytes;
  make_zone(base, zone_bytes);
  std::memset(begin, poison_byte, bytes);
  make_zone(begin + bytes, padded(bytes) - bytes + zone_bytes);
  runtime().memory[address_of(begin)] = {bytes, kind, current_device()};
  return begin;
}

cudaError_t release(void* p, MemoryKind kind, CallKind call) {
  Runtime& r = runtime();
  Lock lock(r.mutex);
  if (p == nullptr) return cudaSuccess;
  if (const cudaError_t error = unsafe_entry_error(lock); error == cudaErrorStreamCaptureUnsupported)
    return returned(error);
  const auto found = r.memory.find(address_of(p));
  if (found == r.memory.end() || found->second.kind != kind) return returned(cudaErrorInvalidValue);
  check_zones(found->first, found->second);
  r.calls.push_back({.kind = call, .device = current_device(), .to = p, .bytes = found->second.bytes});
  if (kind == MemoryKind::device) r.device_bytes[found->second.device] -= found->second.bytes;
  r.memory.erase(found);
  std::free(static_cast<std::byte*>(p) - zone_bytes);
  return returned(entry_error(lock));
}

// RETURNS: null, or why a copy between these addresses is an error.
const char* fault_of_copy(const Lock& lock, const void* to, const void* from, std::size_t bytes,
                          cudaMemcpyKind kind) {
  const Allocation* target = find_memory(lock, to, bytes);
  const Allocation* source = find_memory(lock, from, bytes);
  if (target == nullptr) return "its target is neither device nor pinned memory";
  if (source == nullptr) return "its source is neither device nor pinned memory";
  const auto on_device = [](const Allocation* a) { return a->kind == MemoryKind::device; };
  if (kind == cudaMemcpyDefault) return nullptr;
  if (on_device(source) != (kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice))
    return "its kind says something else of its source";
  if (on_device(target) != (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice))
    return "its kind says something else of its target";
  return nullptr;
}

void require_copy(const Lock& lock, const void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                  const char* when) {
  if (const char* fault = fault_of_copy(lock, to, from, bytes, kind)) {
    fail(fmt::format("{} a copy of {} bytes: {}", when, bytes, fault));
  }
}

// A stream may access another device's memory only by a copy between the two devices.
void require_own_memory(const Lock& lock, const void* to, const void* from, int device) {
  const auto own = [&](const void* p) {
    const Allocation* found = find_memory(lock, p, 1);
    return found == nullptr || found->kind != MemoryKind::device || found->device == device;
  };
  if (!own(to) && !own(from)) fail(fmt::format("a stream of device {} copies other devices' memory", device));
  const bool between = !own(to) || !own(from);
  const Allocation *target = find_memory(lock, to, 1), *source = find_memory(lock, from, 1);
  if (between && (target->kind != MemoryKind::device || source->kind != MemoryKind::device))
    fail(fmt::format("a stream of device {} copies between the host and another device", device));
}

void require_range(const Lock& lock, const void* to, std::size_t bytes, const char* what) {
  const Allocation* found = find_memory(lock, to, bytes);
  if (found == nullptr || found->kind != MemoryKind::device) {
    fail(fmt::format("{}: {} bytes that are not device memory", what, bytes));
  }
}

}  // namespace

std::size_t free_bytes_of(const Runtime& r, int device) {
  const auto used = r.device_bytes.find(device);
  const std::size_t taken =
      r.options.taken_by_others_bytes + (used == r.device_bytes.end() ? 0 : used->second);
  return r.options.device_memory_bytes - std::min(taken, r.options.device_memory_bytes);
}

void take_device_bytes(Runtime& r, int device, std::size_t bytes) {
  r.device_bytes_peak = std::max(r.device_bytes_peak, r.device_bytes[device] += bytes);
}

const Allocation* find_memory(const Lock&, const void* p, std::size_t bytes) {
  const auto& memory = runtime().memory;
  auto found = memory.upper_bound(address_of(p));
  if (found == memory.begin()) return nullptr;
  --found;
  return address_of(p) + bytes <= found->first + found->second.bytes ? &found->second : nullptr;
}

void require_device_memory(const void* p, std::size_t bytes, const char* what) {
  Lock lock(runtime().mutex);
  require_range(lock, p, bytes, what);
}

void check_red_zones() {
  Lock lock(runtime().mutex);
  for (const auto& [address, allocation] : runtime().memory) check_zones(address, allocation);
}

}  // namespace emulated_cuda

using namespace emulated_cuda;

cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  Runtime& r = runtime();
  Lock lock(r.mutex);
  if (const cudaError_t error = unsafe_entry_error(lock); error != cudaSuccess) return returned(error);
  *free_bytes = free_bytes_of(r, current_device());
  *total_bytes = r.options.device_memory_bytes;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  Runtime& r = runtime();
  Lock lock(r.mutex);
  *pointer = nullptr;
  if (const cudaError_t error = unsafe_entry_error(lock); error != cudaSuccess) return returned(error);
  if (bytes == 0) return cudaSuccess;
  const int device = current_device();
  if (fires(r.faults.device_allocation) || bytes > free_bytes_of(r, device))
    return returned(cudaErrorMemoryAllocation);
  *pointer = allocate(bytes, MemoryKind::device);
  if (*pointer == nullptr) return returned(cudaErrorMemoryAllocation);
  take_device_bytes(r, device, bytes);
  r.calls.push_back({.kind = CallKind::allocate, .device = device, .to = *pointer, .bytes = bytes});
  return cudaSuccess;
}

cudaError_t cudaFree(void* p) { return release(p, MemoryKind::device, CallKind::free); }

cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned) {
  Runtime& r = runtime();
  Lock lock(r.mutex);
  *pointer = nullptr;
  if (const cudaError_t error = unsafe_entry_error(lock); error != cudaSuccess) return returned(error);
  if (fires(r.faults.host_allocation)) return returned(cudaErrorMemoryAllocation);
  *pointer = allocate(bytes, MemoryKind::pinned);
  r.calls.push_back(
      {.kind = CallKind::host_allocate, .device = current_device(), .to = *pointer, .bytes = bytes});
  return returned(*pointer == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}

cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) { return cudaHostAlloc(pointer, bytes, 0); }
cudaError_t cudaFreeHost(void* p) { return release(p, MemoryKind::pinned, CallKind::host_free); }

cudaError_t cudaHostRegister(void* p, std::size_t bytes, unsigned) {
  Runtime& r = runtime();
  Lock lock(r.mutex);
  if (const cudaError_t error = unsafe_entry_error(lock); error != cudaSuccess) return returned(error);
  if (fires(r.faults.host_allocation)) return returned(cudaErrorMemoryAllocation);
  if (p == nullptr || bytes == 0) return returned(cudaErrorInvalidValue);
  const auto after = r.memory.lower_bound(address_of(p));
  if (find_memory(lock, p, 1) != nullptr ||
      (after != r.memory.end() && after->first < address_of(p) + bytes)) {
    return returned(cudaErrorHostMemoryAlreadyRegistered);
  }
  r.memory[address_of(p)] = {bytes, MemoryKind::registered, current_device()};
  r.calls.push_back({.kind = CallKind::host_register, .device = current_device(), .to = p, .bytes = bytes});
  return cudaSuccess;
}

cudaError_t cudaHostUnregister(void* p) {
  Runtime& r = runtime();
  Lock lock(r.mutex);
  if (const cudaError_t error = unsafe_entry_error(lock); error == cudaErrorStreamCaptureUnsupported)
    return returned(error);
  const auto found = r.memory.find(address_of(p));
  if (found == r.memory.end() || found->second.kind != MemoryKind::registered) {
    return returned(cudaErrorHostMemoryNotRegistered);
  }
  r.calls.push_back({.kind = CallKind::host_unregister, .to = p, .bytes = found->second.bytes});
  r.memory.erase(found);
  return returned(entry_error(lock));
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  Runtime& r = runtime();
  Lock lock(r.mutex);
  if (const cudaError_t error = entry_error(lock, stream); error != cudaSuccess) return returned(error);
  if (bytes == 0) return cudaSuccess;
  require_stream(stream);
  require_copy(lock, to, from, bytes, kind, "asked for");
  require_own_memory(lock, to, from, stream->device);
  r.calls.push_back({.kind = CallKind::copy,
                     .device = stream->device,
                     .stream = stream->number,
                     .to = to,
                     .from = from,
                     .bytes = bytes});
  enqueue(lock, stream, [=, device = stream->device] {
    // Under the lock: after a failure, pinned staging memory is freed without waiting for copies.
    Lock held(runtime().mutex);
    if (sticky_error(held, device) != cudaSuccess) return;
    require_copy(held, to, from, bytes, kind, "memory was freed before");
    std::memmove(to, from, bytes);
  });
  return cudaSuccess;
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, std::size_t bytes,
                                cudaStream_t stream) {
  {
    Lock lock(runtime().mutex);
    const Allocation* target = find_memory(lock, to, bytes);
    const Allocation* source = find_memory(lock, from, bytes);
    if (bytes > 0 && (target == nullptr || source == nullptr || target->device != to_device ||
                      source->device != from_device))
      fail(fmt::format("a copy of {} bytes from device {} to {}: its memory is not there", bytes, from_device,
                       to_device));
  }
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
}

cudaError_t cudaMemsetAsync(void* to, int byte, std::size_t bytes, cudaStream_t stream) {
  Runtime& r = runtime();
  Lock lock(r.mutex);
  if (const cudaError_t error = entry_error(lock, stream); error != cudaSuccess) return returned(error);
  if (bytes == 0) return cudaSuccess;
  require_stream(stream);
  require_range(lock, to, bytes, "cudaMemsetAsync");
  if (find_memory(lock, to, bytes)->device != stream->device)
    fail(fmt::format("a stream of device {} sets another device's memory", stream->device));
  r.calls.push_back(
      {.kind = CallKind::set, .device = stream->device, .stream = stream->number, .to = to, .bytes = bytes});
  enqueue(lock, stream, [=] {
    require_device_memory(to, bytes, "cudaMemsetAsync");
    std::memset(to, byte, bytes);
  });
  return cudaSuccess;
}
