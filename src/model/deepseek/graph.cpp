// Windows and sizes of DeepSeek-V3's layers, and the two kinds of blocks that its layers begin with.
#include <fmt/format.h>

#include "model/decoder_windows.h"
#include "model/deepseek/layer.h"
#include "model/layer_code.h"
#include "model/layer_frames.h"

namespace tidepool {
namespace deepseek {

Layer layer_of(const BlockContext& c, std::span<const std::byte* const> windows,
               const AdapterScratch& scratch) {
  return {c, params_of(c, windows, 0),
          Adapters(c, linear_modules(c.graph.config, block_of(c).kind), windows, scratch)};
}

namespace {

Window layer_window(const ModelConfig& c, u32 layer) {
  const BlockKind kind = layer_kind(c, layer);
  std::vector<TensorSpec> specs;
  for (u32 i = 0; i < tensor_count; ++i) {
    const auto tensor = static_cast<LayerTensor>(i);
    if (!has_tensor(c, kind, tensor)) continue;
    specs.push_back(parameter_spec(c, fmt::format("model.layers.{}.{}", layer, name(c, kind, tensor)),
                                   shape_of(c, kind, tensor)));
    specs.back().joined = tensor == LayerTensor::up;
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

RouterWeights router_of(const Layer& l, const float* correction = nullptr) {
  return {.weight = l[LayerTensor::router],
          .bias = {},
          .correction = correction,
          .adapters = l.adapters,
          .module = l.modules().router};
}

// Adds the shared experts to `middle`, and chooses experts for the groups that follow.
void end_of_attention_block(const Layer& l, const BlockForward& f, const ForwardWorkspace& w,
                            const LayerInside& inside) {
  const BlockContext& c = l.c;
  const u32 experts = l.config().experts.count;
  norm_of(l, LayerTensor::mlp_norm, inside.middle, f.experts.normed);
  // The router reads it in fp32.
  c.kernels.copy_columns({.rows = 1,
                          .columns = experts,
                          .x = l[LayerTensor::correction],
                          .x_stride = experts,
                          .y = w.correction,
                          .y_stride = experts});
  route(c, router_of(l, w.correction), f, w.router);
  if (l.inner() == 0)  // a copy
    return c.kernels.dropout({}, inside.middle, f.experts.middle, u64{rows_of(c)} * l.config().width);
  gate_up_of(l, f.experts.normed, inside.gate_up);
  rest_of_mlp(
      l, {.gate_up = inside.gate_up, .middle = inside.middle, .inner = w.latents.q, .out = f.experts.middle});
}

void forward(const BlockContext& c, const BlockForward& f) {
  const BlockKind kind = block_of(c).kind;
  const ForwardWorkspace w(c.graph, f.workspace, kind);
  const LayerInside inside(c.graph, f.kept != nullptr ? f.kept : w.inside, kind);
  CHECK(w.bytes == forward_workspace_of(c) && inside.bytes == block_of(c).kept, c.block);
  const Layer layer = layer_of(c, f.windows, w.adapters);
  attention_half(layer,
                 {.x = f.input, .starts = f.starts, .norm = w.norm, .latents = w.latents, .inside = inside});
  if (kind == BlockKind::attention) return end_of_attention_block(layer, f, w, inside);
  norm_of(layer, LayerTensor::mlp_norm, inside.middle, w.norm);
  gate_up_of(layer, w.norm, inside.gate_up);
  rest_of_mlp(layer,
              {.gate_up = inside.gate_up, .middle = inside.middle, .inner = w.latents.q, .out = f.output});
}

// Recomputes output and rstd of the MLP's norm, and the inside, if it was not kept.
void recompute(const LayerGradients& s) {
  const bool kept = s.b.kept != nullptr;
  if (!kept)
    attention_half(s.layer, {.x = s.b.input,
                             .starts = s.b.starts,
                             .norm = s.workspace.norm,
                             .latents = s.workspace.latents,
                             .inside = s.inside});
  norm_of(s.layer, LayerTensor::mlp_norm, s.inside.middle, s.workspace.norm, &s.workspace.moments);
  if (!kept && s.layer.inner() != 0) gate_up_of(s.layer, s.workspace.norm, s.inside.gate_up);
}

// Gradients of router and shared experts. The norm goes back once, from the sum by way of experts, shared
// experts and router: a micro-batch adds to the gradient of the norm's weight once.
void routed_gradients(const LayerGradients& s) {
  const BlockContext& c = s.layer.c;
  constexpr bool add = true;
  if (s.layer.inner() != 0) mlp_backward(s, s.b.experts.normed_grad, add);
  route_backward(c, router_of(s.layer), {.weight = s[LayerTensor::router], .adapters = s.adapters},
                 s.workspace.norm, s.b, s.workspace.router);
  norm_gradient(s, LayerTensor::mlp_norm, s.inside.middle, ConstValues(s.b.experts.normed_grad),
                s.b.accumulate);
  float* correction = s[LayerTensor::correction];
  if (correction != nullptr && !s.b.accumulate) c.kernels.zero(correction, s.config().experts.count);
}

void backward(const BlockContext& c, const BlockBackward& b) {
  const auto run = [&](const BackwardWorkspace& workspace, const LayerInside& inside) {
    const Layer layer = layer_of(c, b.windows, workspace.adapters);
    const LayerGradients s = {.layer = layer,
                              .b = b,
                              .window = gradients_of(c, b, 0),
                              .adapters = adapter_gradients_of(c, b),
                              .workspace = workspace,
                              .inside = inside};
    recompute(s);
    // The MLP reads b.grad before anything is added to it.
    if (layer.kind() == BlockKind::attention) {
      routed_gradients(s);
    } else {
      mlp_backward(s, workspace.narrow, false);
      norm_gradient(s, LayerTensor::mlp_norm, inside.middle, workspace.narrow, b.accumulate);
    }
    attention_half_backward(s);
  };
  if (block_of(c).kind == BlockKind::attention)
    with_backward_frames<AttentionInside, AttentionBackwardWorkspace>(c, b, run);
  else
    with_backward_frames<LayerInside, BackwardWorkspace>(c, b, run);
}

}  // namespace

}  // namespace deepseek

const LayerCode deepseek::code = {.styles = {&deepseek_layers},
                                  .windows = deepseek::make_windows,
                                  .embedding_windows = 1,
                                  .modules = deepseek::linear_modules,
                                  .measure = deepseek::measure,
                                  .forward = deepseek::forward,
                                  .backward = deepseek::backward};

}  // namespace tidepool
