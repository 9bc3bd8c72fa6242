#include "fit/memory_need.h"

#include <algorithm>

#include "huggingface/weights/weight_reader.h"
#include "kernels/kernels.h"
#include "optimizers/optimizer.h"

namespace tidepool {
namespace {

// Memory still to be taken outside the arenas. The plan is already in use. Constants are measured: processes
// of 1 to 8 threads, 1 to 4 devices and 450 to 180,000 ops came to within 5 MiB.
// - Code that runs only in a session (most of it oneDNN's), buffers of files, the disk's queue: 10 MiB.
// - Each worker: its scratch, which it touches at its start, its stack and its part of the allocator.
// - Each further device: threads and queues of its lanes, and its kernels.
// - Each op: its place in schedules and in the forecast, less what planning has given back.
Bytes beside_budgets(const Plan& plan, DeviceMemory device_memory, const MemoryUsers& users) {
  constexpr Bytes session{10 * mib}, worker{256 * kib}, device{mib};
  constexpr u64 bytes_per_op = 128;
  u64 ops = 0, params = 0;
  for (const Segment& segment : plan.segments) ops += segment.ops.size();
  for (const Chunk& chunk : plan.chunks)
    if (chunk.kind == Kind::param) params += chunk.bytes.value;
  // The reader ends before the first step; it holds parts of files, never more than twice the weights.
  const Bytes reader = users.loads_weights ? std::min(WeightReader::memory_max, Bytes{2 * params}) : Bytes{0};
  return session + (kernel_scratch_per_worker + worker) * users.workers + device * (plan.devices - 1) +
         Bytes{ops * bytes_per_op} + staging_beside_budgets(plan, device_memory) +
         std::max(reader, users.steps) + users.updates + users.lookups;
}

}  // namespace

DeviceMemory device_memory_of(const Config& config) {
  return config.machine.gpus().empty() ? DeviceMemory::of_host : DeviceMemory::of_gpus;
}

Bytes staging_beside_budgets(const Plan& plan, DeviceMemory device_memory) {
  Bytes beside{};
  for (const StagingPlace& place :
       place_staging(plan, staging_bytes(plan, device_memory), host_reserved(), device_memory))
    if (!place.tier) beside += place.bytes;
  return beside;
}

Bytes update_scratch_of_host(const ModelGraph& graph, const Plan& plan, DeviceMemory device_memory) {
  const u64 threads = 1 + (device_memory == DeviceMemory::of_host ? plan.devices : 0);
  return update_scratch(graph) * threads;
}

MemoryNeed memory_need(const Config& config, const Plan& plan, const MemoryUsers& users) {
  const auto peak = [&](Tier tier) { return plan.tiers[static_cast<u32>(tier)].planned_peak; };
  const DeviceMemory device_memory = device_memory_of(config);
  const bool gpus = device_memory == DeviceMemory::of_gpus;
  return {.arenas = peak(Tier::host) + (gpus ? Bytes{0} : peak(Tier::device) * plan.devices),
          .beside = beside_budgets(plan, device_memory, users)};
}

Bytes host_reserved() {
  return Bytes{round_up((executor_staging + checkpoint_buffer).value, frame_alignment)};
}

}  // namespace tidepool
