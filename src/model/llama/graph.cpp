// Tensors and layer sizes of Llama and the families with layers like its: Mistral, Qwen, Phi-3, Gemma 3,
// Mixtral, gpt-oss.
#include <fmt/format.h>

#include "model/decoder_windows.h"
#include "model/layer_code.h"
#include "model/layer_frames.h"
#include "model/llama/layer.h"

namespace tidepool {
namespace llama {
namespace {

Window layer_window(const ModelConfig& c, u32 layer) {
  std::vector<TensorSpec> specs;
  for (u32 i = 0; i < tensor_count; ++i) {
    const auto tensor = static_cast<LayerTensor>(i);
    if (!has_tensor(c, layer_kind(c, layer), tensor)) continue;
    specs.push_back(
        parameter_spec(c, fmt::format("model.layers.{}.{}", layer, name(c, tensor)), shape_of(c, tensor)));
    specs.back().joined = is_joined(tensor);
  }
  return make_window(fmt::format("layers.{}", layer), std::move(specs));
}

std::vector<Window> make_windows(const ModelGraph& g) { return decoder_windows(g, layer_window); }

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
