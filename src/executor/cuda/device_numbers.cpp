// DeviceNumbers lays out a step's arrays in one range of device memory and starts the kernels that fill them.
#include "executor/cuda/device_numbers.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "executor/gpu_reserved.h"
#include "kernels/cuda/cuda_error.h"
#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/gradient/gradient.h"

namespace tidepool {
namespace {

constexpr u64 cells_of_granule = norm_granule_elements / norm_cell_elements;

}  // namespace

Result<std::unique_ptr<DeviceNumbers>> DeviceNumbers::create(const Plan& plan, const ModelGraph& graph,
                                                             StepSource& source,
                                                             const DeviceNumbersPlace& place) {
  std::unique_ptr<DeviceNumbers> numbers(new DeviceNumbers(plan, graph, source, place));
  const UpdateIndex updates(plan, graph);
  StepArraySizes sizes{.micro_batches = plan.micro_batches,
                       .partials = numbers->layout_.partials(),
                       .vocabulary = graph.config.head_rows(),
                       .cells = numbers->layout_.cells(),
                       .experts = numbers->experts_,
                       .outputs = numbers->outputs_,
                       .update_scratch = tidepool::update_scratch(graph).value,
                       .several_devices = plan.devices > 1,
                       .several_nodes = plan.nodes > 1};
  for (const Chunk& chunk : plan.chunks)
    if (chunk.kind == Kind::param) sizes.decay_segments += updates.decay_of(chunk.window, chunk.cut).size();
  TRY(numbers->take_memory(sizes, place.memory));
  TRY(numbers->bring_decay(plan, updates));
  TRY(numbers->bring_shared());
  numbers->set_loss_scale({});
  return numbers;
}

DeviceNumbers::DeviceNumbers(const Plan& plan, const ModelGraph& graph, StepSource& source,
                             const DeviceNumbersPlace& place)
    : clipping_(plan.clipping),
      precision_(plan.precision),
      micro_batches_(plan.micro_batches),
      shares_(plan.replicas() * plan.nodes),
      several_devices_(plan.devices > 1),
      several_nodes_(plan.nodes > 1),
      experts_(experts_of_layers(graph)),
      vocabulary_(graph.config.head_rows()),
      outputs_(graph.batch.rows() * graph.objective.outputs()),
      layout_(plan, graph),
      source_(source),
      device_index_(place.device),
      stream_(place.compute),
      decay_(graph.windows.size()) {}

Result<void> DeviceNumbers::take_memory(const StepArraySizes& sizes, std::span<std::byte> memory) {
  const Bytes needed = lay_out(sizes, memory.data(), device_);
  update_scratch_ = {device_.update_scratch, sizes.update_scratch};
  if (needed.value > memory.size())
    return Error{
        ErrorKind::does_not_fit,
        fmt::format("the plan has more than {} chunk sets, too many for the device to know which elements "
                    "decay: raise memory.chunk_size",
                    gpu_chunk_sets_max)};
  TRY_ASSIGN(pinned_, PinnedMemory::create(lay_out(sizes, nullptr, host_)));
  lay_out(sizes, pinned_->memory().data(), host_);
  return {};
}

// Copies once, through temporary pinned memory.
Result<void> DeviceNumbers::bring_decay(const Plan& plan, const UpdateIndex& index) {
  std::vector<DecaySegment> all;
  for (const Chunk& chunk : plan.chunks) {
    if (chunk.kind != Kind::param) continue;
    const std::span<const DecaySegment> runs = index.decay_of(chunk.window, chunk.cut);
    auto& cuts = decay_[chunk.window];
    if (cuts.size() <= chunk.cut) cuts.resize(chunk.cut + 1);
    cuts[chunk.cut] = {device_.segments + all.size(), runs.size()};
    all.insert(all.end(), runs.begin(), runs.end());
  }
  return bring(device_.segments, std::span<const DecaySegment>(all), "copying what decays to the device");
}

// Brings the places of shared granules' sums, and clears the numbers that other devices make.
Result<void> DeviceNumbers::bring_shared() {
  if (!several_devices_) return {};
  const char* const doing = "clearing a step's numbers";
  TRY_CUDA(cudaMemsetAsync(device_.partials, 0, squares() * sizeof(double), stream_), doing);
  TRY_CUDA(cudaMemsetAsync(device_.sums, 0, steps_kept * micro_batches_ * sizeof(Sums), stream_), doing);
  std::vector<u32> places(layout_.cells() / cells_of_granule);
  for (u32 partial = 0; partial < layout_.partials(); ++partial)
    if (const u32 cell = layout_.shared()[partial]; cell != none) places[cell / cells_of_granule] = partial;
  return bring(device_.shared, std::span<const u32>(places), "copying what devices share");
}

template <class T>
Result<void> DeviceNumbers::bring(T* to, std::span<const T> from, const char* what) {
  if (from.empty()) return {};
  const std::span<const std::byte> bytes = std::as_bytes(from);
  TRY_ASSIGN(const std::unique_ptr<PinnedMemory> staging, PinnedMemory::create(Bytes{bytes.size()}));
  std::ranges::copy(bytes, staging->memory().begin());
  TRY_CUDA(cudaMemcpyAsync(to, staging->memory().data(), bytes.size(), cudaMemcpyHostToDevice, stream_),
           what);
  TRY_CUDA(cudaStreamSynchronize(stream_), what);
  return {};
}

void DeviceNumbers::set_loss_scale(const LossScale& scale) {
  first_scale_ = scale;
  first_step_ = scale_of_ = 0;
  set_loss_scale_cuda(scale, device_.loss_scale, stream_);
}

const float* DeviceNumbers::loss_scale(u64 step, const DeviceNumbers& of_norm) {
  const bool first = of_norm.first_step_ == 0 || step <= of_norm.first_step_;
  const bool made_elsewhere = several_nodes_ || &of_norm != this;
  if (made_elsewhere && !first && scale_of_ != step) {
    cudaMemcpyAsync(device_.loss_scale, &of_norm.host_.results[slot_of(step - 1)].next_loss_scale,
                    sizeof(LossScale), cudaMemcpyHostToDevice, stream_);
    scale_of_ = step;
  }
  return &device_.loss_scale->scale;
}

Sums* DeviceNumbers::begin_sums(u64 step, u32 micro_batch) {
  Sums* const begun = sums(step, micro_batch);
  cudaMemsetAsync(begun, 0, sizeof(Sums), stream_);
  return begun;
}

// A device's micro-batches come in ascending order, and its first one clears its counts.
RoutingPlace DeviceNumbers::begin_routing(u64 step, u32 micro_batch) {
  if (experts_ == 0) return {};
  const u64 slot = slot_of(step);
  const RoutingPlace place = {device_.router_losses + slot * micro_batches_ + micro_batch,
                              device_.expert_tokens + slot * experts_};
  cudaMemsetAsync(place.losses, 0, sizeof(RouterLosses), stream_);
  if (micro_batch < shares_) cudaMemsetAsync(place.tokens, 0, experts_ * sizeof(i64), stream_);
  return place;
}

// On the compute stream: the copy has ended when the step's norm has, because gradients follow it.
void DeviceNumbers::fetch_routing(u64 step) {
  if (experts_ == 0) return;
  const u64 slot = slot_of(step), losses = slot * micro_batches_, tokens = slot * experts_;
  cudaMemcpyAsync(host_.router_losses + losses, device_.router_losses + losses,
                  micro_batches_ * sizeof(RouterLosses), cudaMemcpyDeviceToHost, stream_);
  cudaMemcpyAsync(host_.expert_tokens + tokens, device_.expert_tokens + tokens, experts_ * sizeof(i64),
                  cudaMemcpyDeviceToHost, stream_);
  fetched_[slot] = step;
}

void DeviceNumbers::fetch_sums(u64 step, u32 micro_batch) {
  if (!several_nodes_) return;
  const u64 at = u64{slot_of(step)} * micro_batches_ + micro_batch;
  cudaMemcpyAsync(host_.sums + at, device_.sums + at, sizeof(Sums), cudaMemcpyDeviceToHost, stream_);
}

const Sums& DeviceNumbers::sums(u64 step, u32 micro_batch) const {
  CHECK(several_nodes_, step);
  return host_.sums[u64{slot_of(step)} * micro_batches_ + micro_batch];
}

void DeviceNumbers::put_result(u64 step, const StepResult& result) {
  const u32 slot = slot_of(step);
  host_.results[slot] = result;
  finished_[slot] = step;
  if (first_step_ == 0) first_step_ = step;
}

Sums* DeviceNumbers::begin_evaluation(u32 slot, bool continues) {
  Sums* const begun = device_.evaluations + slot;
  if (!continues)
    cudaMemsetAsync(begun, 0, sizeof(Sums), stream_);
  else if (slot != last_evaluation_)
    cudaMemcpyAsync(begun, device_.evaluations + last_evaluation_, sizeof(Sums), cudaMemcpyDeviceToDevice,
                    stream_);
  last_evaluation_ = slot;
  return begun;
}

void DeviceNumbers::add_gradient(u32 window, u64 begin, u64 elements, const std::byte* grad) {
  const u64 bytes = value_bytes(precision_);
  const NormLayout::Runs runs = layout_.runs_of(window, begin, elements);
  for (const NormLayout::Run& run : std::span(runs.run).first(runs.count)) {
    const std::byte* const from = grad + (run.begin - begin) * bytes;
    if (run.cells) {
      norm_cells_cuda(from, precision_, run.elements, device_.cells + run.first, stream_);
    } else {
      norm_partials_cuda(from, precision_, run.elements, device_.partials + run.first, stream_);
    }
  }
}

void DeviceNumbers::add(const DeviceNumbers& other, u64 step) {
  const u64 first = u64{slot_of(step)} * micro_batches_;
  const auto join = [&](double* here, const double* there, u64 count) {
    cudaMemcpyPeerAsync(device_.received, device_index_, there, other.device_index_, count * sizeof(double),
                        stream_);
    add_numbers_cuda(here, device_.received, count, stream_);
  };
  join(device_.sums[first].begin(), other.device_.sums[first].begin(), u64{sum_count} * micro_batches_);
  join(device_.partials, other.device_.partials, squares());
}

void DeviceNumbers::finish(u64 step) {
  const u32 slot = slot_of(step);
  norm_granules_cuda(device_.cells, device_.shared, static_cast<u32>(layout_.cells() / cells_of_granule),
                     device_.partials, stream_);
  const StepSettings settings = source_.settings(step);
  if (first_step_ == 0) first_step_ = step;
  norm_finish_cuda({.sums = device_.sums + u64{slot} * micro_batches_,
                    .sums_count = micro_batches_,
                    .partials = device_.partials,
                    .partial_count = layout_.partials(),
                    .target_tokens = settings.target_tokens,
                    .loss_scale = device_.loss_scale,
                    .loss_scaling = settings.loss_scaling,
                    .result = device_.results + slot},
                   stream_);
  cudaMemcpyAsync(host_.results + slot, device_.results + slot, sizeof(StepResult), cudaMemcpyDeviceToHost,
                  stream_);
  if (several_devices_) {  // clears the places of other devices' numbers
    cudaMemsetAsync(device_.sums + u64{slot} * micro_batches_, 0, micro_batches_ * sizeof(Sums), stream_);
    cudaMemsetAsync(device_.partials, 0, squares() * sizeof(double), stream_);
  }
  finished_[slot] = step;
}

StepResult DeviceNumbers::result(u64 step) const {
  const u32 slot = slot_of(step);
  CHECK(finished_[slot] == step, finished_[slot], step);
  return host_.results[slot];
}

LossScale DeviceNumbers::loss_scale_of(u64 step) const {
  if (precision_ != Precision::fp16) return {};
  const u32 before = slot_of(step - 1);
  const bool made = finished_[before] > 0 && finished_[before] + 1 == step;
  return made ? host_.results[before].next_loss_scale : first_scale_;
}

std::span<const RouterLosses> DeviceNumbers::router_losses(u64 step) const {
  if (experts_ == 0) return {};
  const u32 slot = slot_of(step);
  CHECK(fetched_[slot] == step, fetched_[slot], step);
  return {host_.router_losses + u64{slot} * micro_batches_, micro_batches_};
}

std::span<const i64> DeviceNumbers::expert_tokens(u64 step) const {
  if (experts_ == 0) return {};
  const u32 slot = slot_of(step);
  CHECK(fetched_[slot] == step, fetched_[slot], step);
  return {host_.expert_tokens + slot * experts_, experts_};
}

// Updates run in the segment after the step's own, when the segment of the previous step has ended: the
// previous result has already been copied to the host.
u64 DeviceNumbers::skipped_before(u64 step) const {
  if (!clipping_ || step <= first_step_) return first_scale_.skipped_steps;
  return result(step - 1).next_loss_scale.skipped_steps;
}

// Recomputed for each update: this takes three microseconds, and no two lanes share the scalars.
const UpdateScalars* DeviceNumbers::scalars(u64 step, const UpdateRule& rule, const DeviceNumbers& of_norm) {
  const StepSettings settings = source_.settings(step);
  const u32 slot = slot_of(step);
  if (clipping_ && &of_norm != this && brought_[slot] != step) {
    cudaMemcpyAsync(device_.results + slot, of_norm.host_.results + slot, sizeof(StepResult),
                    cudaMemcpyHostToDevice, stream_);
    brought_[slot] = step;
  }
  const UpdateStep made = update_step(rule, settings.optimizer, step - of_norm.skipped_before(step),
                                      clipping_ ? settings.max_grad_norm : 0);
  update_scalars_cuda(made, clipping_ ? device_.results + slot : nullptr, device_.scalars, stream_);
  return device_.scalars;
}

const UpdateScalars* DeviceNumbers::put_scalars(const UpdateScalars& scalars) {
  put_update_scalars_cuda(scalars, device_.scalars, stream_);
  return device_.scalars;
}

void DeviceNumbers::fetch_evaluation(u32 slot, bool with_logits) {
  cudaMemcpyAsync(host_.evaluations + slot, device_.evaluations + slot, sizeof(Sums), cudaMemcpyDeviceToHost,
                  stream_);
  if (outputs_ > 0)
    cudaMemcpyAsync(host_.outputs + slot * outputs_, device_.outputs + slot * outputs_,
                    outputs_ * sizeof(float), cudaMemcpyDeviceToHost, stream_);
  if (with_logits)
    cudaMemcpyAsync(host_.logits, device_.logits, vocabulary_ * sizeof(float), cudaMemcpyDeviceToHost,
                    stream_);
}

}  // namespace tidepool
