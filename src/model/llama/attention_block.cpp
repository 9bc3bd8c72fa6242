// The attention block of a layer with experts: attention, the norm before the experts, and the router.
#include "base/check.h"
#include "model/layer_frames.h"
#include "model/llama/layer.h"

namespace tidepool::llama {
namespace {

RouterWeights router_of(const Layer& l) {
  return {.weight = l[LayerTensor::router],
          .bias = l[LayerTensor::router_bias],
          .adapters = l.adapters,
          .module = product_modules(l.config()).router};
}
RouterGradients router_of(const LayerGradients& s) {
  return {.weight = s[LayerTensor::router], .bias = s[LayerTensor::router_bias], .adapters = s.adapters};
}

// Recomputes the inside, if it was not kept, and output and rstd of the experts' norm.
void recompute_attention(const LayerGradients& s) {
  const LayerInside& in = s.inside;
  if (s.b.kept == nullptr)
    attention_half(s.layer, {.x = s.b.input,
                             .starts = s.b.starts,
                             .norm = s.workspace.norm,
                             .qkv = in.qkv,
                             .turned = s.turned(),
                             .attention = in.attention,
                             .lse = in.lse,
                             .branch = in.attention_branch,
                             .middle = in.middle});
  else if (s.config().qk_norm())
    turn(s.layer, s.b.starts, in.qkv, s.workspace.turned);
  norm_of(s.layer, LayerTensor::mlp_norm, in.middle, s.workspace.norm, &s.workspace.moments);
}

}  // namespace

void attention_block_forward(const BlockContext& c, const BlockForward& f) {
  const AttentionForwardWorkspace workspace(c.graph, f.workspace);
  const AttentionInside kept(c.graph, f.kept);
  CHECK(workspace.bytes == forward_workspace_of(c) && kept.bytes == block_of(c).kept, c.block);
  const bool keep = f.kept != nullptr;
  const Layer layer = layer_of(c, f.windows, workspace.adapters);
  const Values qkv = keep ? kept.qkv : workspace.wide;
  attention_half(layer, {.x = f.input,
                         .starts = f.starts,
                         .norm = workspace.narrow,
                         .qkv = qkv,
                         .turned = keep && layer.config().qk_norm() ? workspace.wide : qkv,
                         .attention = keep ? kept.attention : workspace.narrow,
                         .lse = kept.lse,
                         .branch = keep ? kept.attention_branch : Branch{.value = f.experts.middle},
                         .middle = f.experts.middle});
  if (keep)
    c.kernels.dropout({}, f.experts.middle, kept.middle, u64{rows_of(c)} * layer.config().width);  // a copy
  norm_of(layer, LayerTensor::mlp_norm, f.experts.middle, f.experts.normed);
  route(c, router_of(layer), f, workspace.router);
}

void attention_block_backward(const BlockContext& c, const BlockBackward& b) {
  with_backward_frames<AttentionInside, AttentionBackwardWorkspace>(
      c, b, [&](const AttentionBackwardWorkspace& workspace, const AttentionInside& inside) {
        const Layer layer = layer_of(c, b.windows, workspace.adapters);
        const LayerGradients s = {.layer = layer,
                                  .b = b,
                                  .window = gradients_of(c, b, 0),
                                  .adapters = adapter_gradients_of(c, b),
                                  .workspace = workspace,
                                  .inside = inside};
        recompute_attention(s);
        route_backward(c, router_of(layer), router_of(s), workspace.norm, b, workspace.router);
        norm_backward(c, {.weight = layer[LayerTensor::mlp_norm], .bias = {}},
                      {.weight = s[LayerTensor::mlp_norm]},
                      {.x = inside.middle,
                       .dy = ConstValues(b.experts.normed_grad),
                       .dx = b.grad,
                       .add_to_dx = true,
                       .accumulate = b.accumulate,
                       .moments = workspace.moments});
        attention_half_backward(s);
      });
}

}  // namespace tidepool::llama
