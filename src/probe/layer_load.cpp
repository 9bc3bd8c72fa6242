#include "probe/layer_load.h"

#include <algorithm>
#include <span>

#include "base/check.h"
#include "kernels/gradient/gradient.h"
#include "model/blocks.h"

namespace tidepool {
namespace {

// About 30 GFLOP: a quarter of a second on two cores, and enough tasks for many cores.
constexpr ModelConfig layer_config{
    .vocab_size = 256, .positions = 512, .width = 768, .layers = 1, .heads = 12};
constexpr BatchShape layer_batch{.sequences = 1, .tokens = 512};
constexpr u32 layer_block = 1;  // the block after the embedding

// The values are neither all equal nor denormal, so that softmax and norms have real work.
void fill_wave(std::span<float> values) {
  for (u64 i = 0; i < values.size(); ++i) values[i] = static_cast<float>((i * 37) % 64) / 64.0f - 0.49f;
}

Result<ModelGraph> layer_graph() { return build_model(layer_config, Precision::bf16, layer_batch); }

}  // namespace

std::vector<KernelCost> layer_costs() {
  const auto graph = layer_graph();
  CHECK(graph.has_value());
  const Block& block = graph->blocks[layer_block];
  std::vector<KernelCost> out = block.forward_kernels;
  out.insert(out.end(), block.backward_kernels.begin(), block.backward_kernels.end());
  out.insert(out.end(), block.recompute_kernels.begin(), block.recompute_kernels.end());
  return out;
}

Result<std::unique_ptr<LayerLoad>> LayerLoad::create(Kernels& kernels) {
  TRY_ASSIGN(ModelGraph graph, layer_graph());
  std::unique_ptr<LayerLoad> load(new LayerLoad(kernels, std::move(graph)));
  TRY(load->take_memory());
  return load;
}

Result<void> LayerLoad::take_memory() {
  const Block& block = graph_.blocks[layer_block];
  const u64 elements = graph_.windows[block.windows[0]].elements, boundary = graph_.boundary.value;
  const u64 workspace = std::max(block.forward_workspace, block.backward_workspace).value;
  u64 end = 0;
  const auto take = [&](u64 bytes) {
    const u64 begin = end;
    end = round_up(end + bytes, frame_alignment);
    return begin;
  };
  const u64 param = take(2 * elements), accumulator = take(4 * elements), input = take(boundary),
            output = take(boundary), grad = take(boundary), scratch = take(workspace);
  TRY_ASSIGN(arena_, Arena::create({.name = "probe", .bytes = Bytes{end}}));
  const auto floats = [&](u64 offset) { return reinterpret_cast<float*>(arena_->at(offset)); };
  param_ = arena_->at(param), workspace_ = arena_->at(scratch);
  accumulator_ = floats(accumulator), input_ = floats(input), output_ = floats(output), grad_ = floats(grad);
  fill_wave({input_, boundary / sizeof(float)});
  u16* weights = reinterpret_cast<u16*>(param_);
  for (u64 i = 0; i < elements; ++i)
    weights[i] = bf16_from_float(0.02f * (static_cast<float>((i * 53) % 97) / 48.0f - 1.01f));
  return {};
}

double LayerLoad::flops() const {
  const Block& block = graph_.blocks[layer_block];
  return static_cast<double>(block.forward_flops + block.backward_flops + block.recompute_flops);
}

void LayerLoad::run() {
  const BlockContext context{.kernels = kernels_, .graph = graph_, .block = layer_block};
  const std::byte* windows[] = {param_};
  block_forward(context, {.windows = windows, .input = input_, .output = output_, .workspace = workspace_});
  // Backward overwrites grad_ with its input's gradient, so every run starts from the same values: otherwise
  // it would grow.
  fill_wave({grad_, graph_.boundary.value / sizeof(float)});
  float* accumulators[] = {accumulator_};
  block_backward(context, {.windows = windows,
                           .input = input_,
                           .grad = grad_,
                           .grad_accum = accumulators,
                           .accumulate = false,
                           .workspace = workspace_});
}

}  // namespace tidepool
