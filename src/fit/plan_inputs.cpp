#include "fit/plan_inputs.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "executor/gpu_reserved.h"
#include "huggingface/weights/weight_reader.h"
#include "io/swap_file.h"
#include "kernels/gradient/gradient.h"
#include "kernels/kernels.h"
#include "model/blocks.h"
#include "model/mlps/experts/expert_windows.h"
#include "tidepool/model_config.h"

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
         std::max(reader, users.steps);
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

Bytes device_reserved(const Config& config, const ModelGraph& graph) {
  if (config.machine.gpus().empty()) return Bytes{0};
  return gpu_reserved(graph, micro_batches_per_step(config), config.machine.devices()).total();
}

bool packs_documents(const Config& config) {
  return config.data.packing && config.data.rows_are_shared.value_or(true) && can_pack(config.model.family);
}

namespace {

// Bytes on the device of a parameter that streams: two of it, and its gradient if it is trained.
u64 streamed_bytes(Precision precision, bool trained) {
  const u64 gradient = sizeof(float) + (precision == Precision::fp32 ? 0 : value_bytes(precision));
  return 2 * value_bytes(precision) + (trained ? gradient : 0);
}

// Bytes on the device of an expert's adapters: two of everything, as for other windows that stream.
u64 adapter_bytes_of_expert(const Config& config) {
  u64 most = 0;
  for (const LayerAdapters& layer : layer_adapters(config.model, config.lora)) {
    u64 elements = 0;
    for (const ExpertAdapter& adapter : layer.experts)
      elements += u64{adapter.r} * (adapter.in + adapter.out);
    most = std::max(most, round_up(elements, norm_granule_elements));
  }
  return streamed_bytes(config.train.precision, true) * most;
}

}  // namespace

u32 experts_per_group(const Config& config) {
  const ModelConfig& model = config.model;
  if (model.experts.count == 0) return 0;
  if (config.memory.experts_per_group != 0)
    return std::min(config.memory.experts_per_group, model.experts.count);
  const u64 element = streamed_bytes(config.train.precision, !config.lora.on());
  const u64 elements = expert_elements(model, config.train.precision, update_rules(config.train.optim));
  const u64 expert = element * elements + adapter_bytes_of_expert(config);
  u32 group = model.experts.count;
  while (group > 1 && group * expert > config.memory.budgets.device.value / 4) group = (group + 1) / 2;
  return group;
}

// GPUs keep activations in the precision of their matrix units.
Result<ModelGraph> make_graph(const Config& config) {
  const Precision precision = config.train.precision;
  LoraConfig lora = config.lora;
  lora.base = config.model_directory;
  // Kernels on GPUs have no strides for an adapter of gate or up alone.
  if (!config.machine.gpus().empty())
    for (const LayerAdapters& layer : layer_adapters(config.model, lora))
      if (layer.experts.form == AdapterForm::single)
        return Error{ErrorKind::usage,
                     "lora.target_modules: on a GPU, experts get adapters through lora.target_parameters "
                     "(mlp.experts.gate_up_proj, mlp.experts.down_proj); or set machine.executor=cpu"};
  return build_model(config.model, precision,
                     {.sequences = config.train.per_device_train_batch_size,
                      .tokens = config.train.sequence_length,
                      .packed = packs_documents(config)},
                     config.machine.gpus().empty() ? Precision::fp32 : precision, lora,
                     experts_per_group(config), update_rules(config.train.optim));
}

u32 micro_batches_per_step(const Config& config) {
  return config.train.gradient_accumulation_steps * config.machine.devices() * config.machine.nodes;
}

Result<Bytes> disk_budget(const Config& config) {
  if (config.memory.budgets.disk != disk_auto) return config.memory.budgets.disk;
  return swap_space(swap_directory(config));
}

namespace {

bool speculates(const Config& config) {
  return config.train.speculate == SpeculatePolicy::on && norm_counts(config);
}

// A run that keeps nothing needs no second version.
u32 versions_asked(const Config& config) {
  if (config.memory.versions == 0 && !config.output.save && speculates(config)) return 2;
  return config.memory.versions == 0 && !config.output.save ? 1 : config.memory.versions;
}

}  // namespace

bool norm_counts(const Config& config) {
  return config.train.max_grad_norm > 0 || config.train.precision == Precision::fp16;
}

bool scale_is_late(const Config& config) {
  return config.train.precision == Precision::fp16 && !config.machine.gpus().empty();
}

PlanOptions plan_options(const Config& config, const ModelGraph& graph, Bytes disk) {
  const Budgets& budgets = config.memory.budgets;
  return PlanOptions{.budgets = {.device = budgets.device, .host = budgets.host, .disk = disk},
                     .micro_batches = micro_batches_per_step(config),
                     .devices = config.machine.devices(),
                     .parallel = config.machine.devices() > 1 && config.machine.parallel == Parallel::layers
                                     ? Parallel::layers
                                     : Parallel::data,
                     .nodes = config.machine.nodes,
                     .node = config.machine.node,
                     .clipping = config.train.max_grad_norm > 0,
                     .home = config.memory.home,
                     .recompute = config.train.recompute,
                     .chunk_bytes = config.memory.chunk_size,
                     .sweeps = config.memory.sweeps,
                     .lookahead = config.memory.lookahead,
                     .device_reserved = device_reserved(config, graph),
                     .host_reserved = host_reserved(),
                     .versions = versions_asked(config),
                     .speculates = speculates(config)};
}

std::string plan_text(const Config& config, const Plan& plan) {
  std::string text = to_text(plan);
  if (config.memory.budgets.disk != disk_auto) return text;
  const std::string budget =
      fmt::format("disk budget {}", plan.tiers[static_cast<u32>(Tier::disk)].budget.value);
  const u64 at = text.find(budget);
  CHECK(at != std::string::npos, budget);
  return text.replace(at, budget.size(), "disk budget auto");
}

}  // namespace tidepool
