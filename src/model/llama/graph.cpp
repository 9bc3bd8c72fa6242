// Tensors and layer sizes of Llama and the families with layers like its: Mistral, Qwen, Phi-3, Gemma 3,
// Mixtral, gpt-oss.
#include <fmt/format.h>

#include "model/experts/expert_windows.h"
#include "model/layer_code.h"
#include "model/layer_frames.h"
#include "model/llama/layer.h"
#include "model/window_builder.h"

namespace tidepool {
namespace llama {
namespace {

TensorSpec spec_of(const ModelConfig& c, std::string name, std::vector<u64> shape) {
  TensorSpec spec{.name = std::move(name), .shape = std::move(shape)};
  const bool ones = spec.name.ends_with("norm.weight") && !style(c.family).norm_offset;
  // transformers draws these at random, though they are no matrices.
  const bool drawn = spec.name.ends_with(".sinks") || spec.name.ends_with(".router.bias");
  spec.init = ones ? Init::ones : spec.shape.size() > 1 || drawn ? Init::normal : Init::zeros;
  if (spec.init == Init::normal) spec.init_std = c.initializer_range;
  return spec;
}

Window layer_window(const ModelConfig& c, u32 layer) {
  std::vector<TensorSpec> specs;
  for (u32 i = 0; i < tensor_count; ++i) {
    const auto tensor = static_cast<LayerTensor>(i);
    if (!has_tensor(c, layer_kind(c, layer), tensor)) continue;
    specs.push_back(
        spec_of(c, fmt::format("model.layers.{}.{}", layer, name(c, tensor)), shape_of(c, tensor)));
    specs.back().joined = is_joined(tensor);
  }
  return make_window(fmt::format("layers.{}", layer), std::move(specs));
}

std::vector<Window> make_windows(const ModelGraph& g) {
  const ModelConfig& c = g.config;
  std::vector<Window> windows;
  const std::vector<u64> matrix = {c.vocab_size, c.width};
  windows.push_back(make_window("embed_tokens", {spec_of(c, "model.embed_tokens.weight", matrix)}));
  for (u32 layer = 0; layer < c.layers; ++layer) {
    windows.push_back(layer_window(c, layer));
    for (u32 group = 0; c.has_experts(layer) && group < expert_groups(g); ++group)
      windows.push_back(expert_window(g, layer, experts_of_group(g, group)));
  }
  windows.push_back(make_window("norm", {spec_of(c, "model.norm.weight", {c.width})}));
  if (!c.tied) windows.push_back(make_window("lm_head", {spec_of(c, "lm_head.weight", matrix)}));
  return windows;
}

void measure(Block& block, const ModelGraph& g) {
  if (block.kind == BlockKind::attention)
    measure_layer<AttentionInside, AttentionForwardWorkspace, AttentionBackwardWorkspace>(block, g);
  else
    measure_layer<LayerInside, ForwardWorkspace, BackwardWorkspace>(block, g);
}

void forward(const BlockContext& c, const BlockForward& f) {
  (block_of(c).kind == BlockKind::attention ? attention_block_forward : layer_forward)(c, f);
}

void backward(const BlockContext& c, const BlockBackward& b) {
  (block_of(c).kind == BlockKind::attention ? attention_block_backward : layer_backward)(c, b);
}

}  // namespace

}  // namespace llama

const LayerCode llama::code = {.styles = {&llama_layers, &gemma_layers, &gpt_oss_layers},
                               .windows = llama::make_windows,
                               .embedding_windows = 1,
                               .modules = llama::linear_modules,
                               .measure = llama::measure,
                               .forward = llama::forward,
                               .backward = llama::backward};

}  // namespace tidepool
