#include "model/gpt2/layer.h"

#include "base/check.h"
#include "model/layer_frames.h"

namespace tidepool::gpt2 {

Layer layer_of(const BlockContext& c, std::span<const std::byte* const> windows,
               const AdapterScratch& scratch) {
  return {c, params_of(c, windows, 0),
          Adapters(c, linear_modules(c.graph.config, block_of(c).kind), windows, scratch)};
}

void layer_forward(const BlockContext& c, const BlockForward& f) {
  CHECK(f.output.data != f.input.data, c.block);
  const ForwardWorkspace workspace(c.graph, f.workspace);
  const LayerInside kept(c.graph, f.kept);
  CHECK(workspace.bytes == forward_workspace_of(c) && kept.bytes == block_of(c).kept, c.block);
  const bool keep = f.kept != nullptr;
  const Layer layer = layer_of(c, f.windows, workspace.adapters);
  const AttentionHalf half = {.x = f.input,
                              .norm = workspace.narrow,
                              .qkv = keep ? kept.qkv : workspace.wide,
                              .attention = keep ? kept.attention : workspace.narrow,
                              .lse = kept.lse,
                              .middle = keep ? kept.middle : f.output};
  attention_half(layer, half);
  norm_of(layer, NormSite::ln_2, half.middle, workspace.narrow);
  first_of_mlp(layer, {.norm = workspace.narrow, .pre = kept.pre, .y = workspace.wide});
  last_of_mlp(layer, workspace.wide, f.output, half.middle);
}

namespace {

// Recomputes ln_2's output and moments, and, if the inside was not kept, the inside.
void recompute(const LayerGradients& s) {
  const LayerInside& in = s.inside;
  if (s.b.kept == nullptr) {
    attention_half(s.layer, {.x = s.b.input,
                             .norm = s.workspace.norm,
                             .qkv = in.qkv,
                             .attention = in.attention,
                             .lse = in.lse,
                             .middle = in.middle});
  }
  norm_of(s.layer, NormSite::ln_2, in.middle, s.workspace.norm, &s.workspace.moments);
  if (s.b.kept == nullptr) first_of_mlp(s.layer, {.norm = s.workspace.norm, .pre = in.pre});
}

}  // namespace

void layer_backward(const BlockContext& c, const BlockBackward& b) {
  with_backward_frames<LayerInside, BackwardWorkspace>(
      c, b, [&](const BackwardWorkspace& workspace, const LayerInside& inside) {
        const Layer layer = layer_of(c, b.windows, workspace.adapters);
        const LayerGradients s = {.layer = layer,
                                  .b = b,
                                  .window = gradients_of(c, b, 0),
                                  .adapters = adapter_gradients_of(c, b),
                                  .workspace = workspace,
                                  .inside = inside};
        recompute(s);
        mlp_backward(s);
        attention_half_backward(s);
      });
}

}  // namespace tidepool::gpt2
