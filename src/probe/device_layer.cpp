#include "probe/device_layer.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "model/blocks.h"
#include "probe/fill_device.h"

namespace tidepool {
namespace {

constexpr u32 measured_block = 1;  // the block after the embedding
constexpr u32 arrays = 7;

// Parameters, gradient sums, input, output, the gradient's beginning, the gradient, workspace.
std::array<u64, arrays> sizes_of(const ModelGraph& graph) {
  const Block& block = graph.blocks[measured_block];
  const u64 elements = graph.windows[block.windows[0]].elements, boundary = graph.boundary.value;
  return {values_bytes(elements, graph.precision),
          sizeof(float) * elements,
          boundary,
          boundary,
          boundary,
          boundary,
          std::max(block.forward_workspace, block.backward_workspace).value};
}

}  // namespace

Bytes DeviceLayer::bytes_of(const ModelGraph& graph) {
  Bytes sum;
  for (const u64 bytes : sizes_of(graph)) sum += Bytes{round_up(bytes, frame_alignment)};
  return sum;
}

Result<std::unique_ptr<DeviceLayer>> DeviceLayer::create(MeasuredDevice& device, ModelGraph graph,
                                                         std::span<std::byte> memory) {
  std::unique_ptr<DeviceLayer> layer(new DeviceLayer(device, std::move(graph)));
  TRY(layer->place(memory));
  device.tune([&](Kernels& kernels) { layer->run(kernels); });
  return layer;
}

Result<void> DeviceLayer::place(std::span<std::byte> memory) {
  CHECK(memory.size() >= bytes_of(graph_).value, memory.size());
  std::array<std::span<std::byte>, arrays> at;
  const std::array<u64, arrays> sizes = sizes_of(graph_);
  for (u32 i = 0; i < arrays; ++i) {
    at[i] = memory.first(sizes[i]);
    memory = memory.subspan(round_up(sizes[i], frame_alignment));
  }
  const auto values = [&](u32 i) { return Values{at[i].data(), graph_.activations}; };
  param_ = at[0].data(), accumulator_ = reinterpret_cast<float*>(at[1].data()), workspace_ = at[6].data();
  input_ = values(2), output_ = values(3), first_grad_ = values(4), grad_ = values(5);
  TRY(fill_device(device_, at[0], graph_.precision, 0.04f));
  TRY(fill_device(device_, at[2], graph_.activations, 1.0f));
  return fill_device(device_, at[4], graph_.activations, 1.0f);
}

double DeviceLayer::flops() const {
  const Block& block = graph_.blocks[measured_block];
  return static_cast<double>(block.forward_flops + block.backward_flops + block.recompute_flops);
}

void DeviceLayer::run(Kernels& kernels) {
  const BlockContext context{.kernels = kernels, .graph = graph_, .block = measured_block};
  const std::byte* windows[] = {param_};
  block_forward(context, {.windows = windows, .input = input_, .output = output_, .workspace = workspace_});
  // Backward overwrites grad_ with its input's gradient, so every run starts from the same copy: otherwise it
  // would grow.
  kernels.dropout({}, first_grad_, grad_, graph_.boundary.value / values_bytes(1, graph_.activations));
  float* accumulators[] = {accumulator_};
  block_backward(context, {.windows = windows,
                           .input = input_,
                           .grad = grad_,
                           .grad_accum = accumulators,
                           .accumulate = false,
                           .workspace = workspace_});
}

std::vector<KernelCost> layer_costs(const ModelGraph& graph) {
  const Block& block = graph.blocks[measured_block];
  std::vector<KernelCost> out = block.forward_kernels;
  out.insert(out.end(), block.backward_kernels.begin(), block.backward_kernels.end());
  out.insert(out.end(), block.recompute_kernels.begin(), block.recompute_kernels.end());
  return out;
}

}  // namespace tidepool
