#include "model/llama/layer.h"

#include "base/check.h"
#include "model/layer_frames.h"

namespace tidepool::llama {

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
  const Values qkv = keep ? kept.qkv : workspace.wide;
  const AttentionHalf half = {.x = f.input,
                              .starts = f.starts,
                              .norm = workspace.narrow,
                              .qkv = qkv,
                              .turned = keep && layer.config().qk_norm() ? workspace.wide : qkv,
                              .attention = keep ? kept.attention : workspace.narrow,
                              .lse = kept.lse,
                              .branch = keep ? kept.attention_branch : Branch{.value = f.output},
                              .middle = keep ? kept.middle : f.output};
  attention_half(layer, half);
  norm_of(layer, LayerTensor::mlp_norm, half.middle, workspace.narrow);
  const Values gate_up = keep ? kept.gate_up : workspace.wide;
  gate_up_of(layer, workspace.narrow, gate_up);
  rest_of_mlp(layer, {.gate_up = gate_up,
                      .middle = half.middle,
                      .inner = workspace.inner,
                      .branch = keep ? kept.mlp_branch : Branch{.value = workspace.narrow},
                      .out = f.output});
}

namespace {

// Recomputes the values that are never kept: output and rstd of the MLP's norm, and q and k after norm and
// rotation if they have norms. If the inside was not kept, recomputes the inside too.
void recompute(const LayerGradients& s) {
  const LayerInside& in = s.inside;
  const bool kept = s.b.kept != nullptr;
  if (!kept) {
    attention_half(s.layer, {.x = s.b.input,
                             .starts = s.b.starts,
                             .norm = s.workspace.norm,
                             .qkv = in.qkv,
                             .turned = s.turned(),
                             .attention = in.attention,
                             .lse = in.lse,
                             .branch = in.attention_branch,
                             .middle = in.middle});
  } else if (s.config().qk_norm()) {
    turn(s.layer, s.b.starts, in.qkv, s.workspace.turned);
  }
  norm_of(s.layer, LayerTensor::mlp_norm, in.middle, s.workspace.norm, &s.workspace.moments);
  if (kept) return;
  gate_up_of(s.layer, s.workspace.norm, in.gate_up);
  // The backward of the MLP's branch norm needs down's output. The layer's output is computed too, and not
  // used.
  if (style(s.config().family).branch_norms)
    rest_of_mlp(s.layer, {.gate_up = in.gate_up,
                          .middle = in.middle,
                          .inner = s.workspace.wide,
                          .branch = in.mlp_branch,
                          .out = s.workspace.narrow});
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

}  // namespace tidepool::llama
