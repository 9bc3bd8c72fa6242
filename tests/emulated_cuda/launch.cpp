// Kernel launches: refuses what the driver would refuse, and runs the grid as an operation of the stream.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/mix_bits.h"
#include "failure.h"
#include "grid.h"
#include "runtime.h"

namespace emulated_cuda {
namespace {

constexpr unsigned grid_x_max = 0x7fff'ffff, grid_yz_max = 65535;
constexpr unsigned block_xy_max = 1024, block_z_max = 64;
constexpr int shared_bytes_default = 48 * 1024;

bool within(dim3 d, unsigned x, unsigned y, unsigned z) {
  return d.x >= 1 && d.y >= 1 && d.z >= 1 && d.x <= x && d.y <= y && d.z <= z;
}

// RETURNS: the limit of a block's shared memory. If more dynamic memory than the default was requested, the
// limit is all that the device grants; static memory counts against it when a block runs.
std::size_t shared_bytes_of_block(const Runtime& r, const void* kernel) {
  const auto limit = r.shared_limits.find({current_device(), kernel});
  const bool raised = limit != r.shared_limits.end() && limit->second > shared_bytes_default;
  return raised ? r.options.shared_bytes_max : shared_bytes_default;
}

cudaError_t refusal(Runtime& r, const void* kernel, dim3 grid, dim3 block, std::size_t shared_bytes) {
  if (fires(r.faults.launch)) return r.faults.launch_error;
  if (!within(grid, grid_x_max, grid_yz_max, grid_yz_max)) return cudaErrorInvalidConfiguration;
  if (!within(block, block_xy_max, block_xy_max, block_z_max)) return cudaErrorInvalidConfiguration;
  if (block.x * block.y * block.z > block_threads_max) return cudaErrorInvalidConfiguration;
  const auto limit = r.shared_limits.find({current_device(), kernel});
  const int allowed = limit == r.shared_limits.end() ? shared_bytes_default : limit->second;
  return shared_bytes > static_cast<std::size_t>(allowed) ? cudaErrorInvalidValue : cudaSuccess;
}

}  // namespace

cudaError_t launch(const void* kernel, dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream,
                   std::function<void()> thread) {
  Runtime& r = runtime();
  Lock lock(r.mutex);
  if (const cudaError_t error = entry_error(lock, stream); error != cudaSuccess) return returned(error);
  require_stream(stream);
  if (stream->device != current_device()) {
    fail(fmt::format("a kernel on a stream of device {} while device {} is set", stream->device,
                     current_device()));
  }
  if (const cudaError_t error = refusal(r, kernel, grid, block, shared_bytes); error != cudaSuccess) {
    return returned(error);
  }
  // A kernel's first use loads it, which waits for the device and takes memory.
  if (r.loaded.insert({stream->device, kernel}).second && stream->capture) return returned(spoil(*stream));
  r.calls.push_back({.kind = CallKind::launch,
                     .device = stream->device,
                     .stream = stream->number,
                     .to = kernel,
                     .bytes = shared_bytes,
                     .grid = grid,
                     .block = block});
  const Grid launched{.grid = grid,
                      .block = block,
                      .dynamic_shared_bytes = shared_bytes,
                      .shared_bytes_max = shared_bytes_of_block(r, kernel),
                      .seed = tidepool::mix_bits(r.options.seed + r.calls.size())};
  enqueue(lock, stream, [=, thread = std::move(thread)] {
    run_grid(launched, thread);
    check_red_zones();
  });
  return cudaSuccess;
}

std::size_t loaded_kernels(int device) {
  Runtime& r = runtime();
  Lock lock(r.mutex);
  return static_cast<std::size_t>(
      std::ranges::count(r.loaded, device, [](const auto& loaded) { return loaded.first; }));
}

}  // namespace emulated_cuda

using namespace emulated_cuda;

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  Runtime& r = runtime();
  Lock lock(r.mutex);
  if (const cudaError_t error = entry_error(lock); error != cudaSuccess) return returned(error);
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  if (value < 0 || static_cast<std::size_t>(value) > r.options.shared_bytes_max)
    return returned(cudaErrorInvalidValue);
  r.shared_limits[{current_device(), kernel}] = value;
  return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
  Runtime& r = runtime();
  Lock lock(r.mutex);
  if (const cudaError_t error = entry_error(lock); error != cudaSuccess) return returned(error);
  if (fires(r.faults.kernel_load)) return returned(r.faults.kernel_load_error);
  r.loaded.insert({current_device(), kernel});
  *attributes = {};
  return cudaSuccess;
}
