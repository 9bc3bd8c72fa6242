// Backward of a layer, from the end: MLP, then attention. `grad` is the gradient of the residual
// stream and stays in place; each half adds its share to it.
#include "base/check.h"
#include "model/layer_inside.h"

namespace tidepool {
namespace {

using enum LayerTensor;

struct Backward {
  const BlockContext& c;
  const BlockBackward& b;
  const WindowParams w;
  const WindowGradients g;
  const Adapters adapters;
  const AdapterGradients adapter_gradients;
  const LayerBackwardWorkspace& workspace;
  const LayerInside& inside;

  u32 h() const { return c.graph.config.width; }
  u32 inner() const { return c.graph.config.inner(); }
};

// The kept inside is only read: `pre` alone is overwritten, and only where it was recomputed.
std::byte* inside_frame(const BlockBackward& b, const LayerBackwardWorkspace& workspace) {
  return b.kept != nullptr ? const_cast<std::byte*>(b.kept) : workspace.inside;
}

// ln_2's output and moments, and without kept everything before them.
void recompute(const Backward& s) {
  const LayerInside& in = s.inside;
  if (s.b.kept == nullptr) {
    attention_half(s.c, s.w, s.adapters,
                   {.x = s.b.input,
                    .norm = s.workspace.norm,
                    .qkv = in.qkv,
                    .attention = in.attention,
                    .lse = in.lse,
                    .middle = in.middle});
  }
  layer_norm_of(s.c, s.w, LayerNormSite::ln_2,
                {.x = in.middle, .y = s.workspace.norm, .mean = s.workspace.mean, .rstd = s.workspace.rstd});
  if (s.b.kept == nullptr) first_of_mlp(s.c, s.w, s.adapters, {.norm = s.workspace.norm, .pre = in.pre});
}

// The gradient as it comes out of a residual dropout.
ConstValues through_dropout(const Backward& s, DropoutSite site) {
  const Dropout dropout = dropout_of(s.c, site, s.c.graph.config.residual_dropout);
  if (!dropout.on()) return s.b.grad;
  s.c.kernels.dropout(dropout, s.b.grad, s.workspace.dropped, u64{rows_of(s.c)} * s.h());
  return s.workspace.dropped;
}

struct Weights {
  LayerTensor weight, bias;
  u32 n, k;
  JoinedModules module;
};
// Of the weights if they are trained.
void weight_gradient(const Backward& s, const Weights& weights, ConstValues x, ConstValues dy) {
  if (s.g[weights.weight] == nullptr) return;
  s.c.kernels.weight_gradient({.m = rows_of(s.c),
                               .n = weights.n,
                               .k = weights.k,
                               .x = x,
                               .dy = dy,
                               .dw = s.g[weights.weight],
                               .dbias = s.g[weights.bias],
                               .accumulate = s.b.accumulate});
}

// Of the weights, of the module's adapter, and workspace.narrow = dy weight^T, and through the adapter.
void gradients(const Backward& s, const Weights& weights, ConstValues x, ConstValues dy) {
  weight_gradient(s, weights, x, dy);
  s.c.kernels.matmul({.m = rows_of(s.c),
                      .n = weights.k,
                      .k = weights.n,
                      .x = dy,
                      .weight = s.w[weights.weight],
                      .transposed = true,
                      .y = s.workspace.narrow});
  s.adapters.gradients(weights.module, x, dy, s.workspace.narrow, s.adapter_gradients);
}

// grad += gradient of the norm's input, from workspace.narrow.
void norm_gradient(const Backward& s, LayerNormSite site, ConstValues x) {
  const bool first = site == LayerNormSite::ln_1;
  s.c.kernels.layer_norm_backward({.rows = rows_of(s.c),
                                   .columns = s.h(),
                                   .x = x,
                                   .weight = s.w[first ? ln_1_weight : ln_2_weight],
                                   .mean = s.workspace.mean,
                                   .rstd = s.workspace.rstd,
                                   .dy = s.workspace.narrow,
                                   .dx = s.b.grad,
                                   .add_to_dx = true,
                                   .dweight = s.g[first ? ln_1_weight : ln_2_weight],
                                   .dbias = s.g[first ? ln_1_bias : ln_2_bias],
                                   .accumulate = s.b.accumulate,
                                   .partials = s.workspace.partials});
}

// workspace.dpre from dout, through the last product and GELU. Makes GELU's output again on the way, in
// workspace.wide: one exp serves both.
void gelu_backward(const Backward& s, ConstValues dout) {
  const auto finish = [&](Matmul& product) {
    product.epilogue = Epilogue::gelu_backward;
    product.y = s.workspace.dpre;
    product.pre_in = s.inside.pre;
    product.value = s.workspace.wide;
    s.c.kernels.matmul(product);
  };
  Matmul product = {.m = rows_of(s.c),
                    .n = s.inner(),
                    .k = s.h(),
                    .x = dout,
                    .weight = s.w[mlp_c_proj_weight],
                    .transposed = true};
  if (const u32 module = gpt2_modules::mlp_c_proj.first; s.adapters.has(module)) {
    s.adapters.input_gradient(module, dout, s.workspace.wide);
    product.addend = s.workspace.wide;
  }
  finish(product);
}

void mlp_backward(const Backward& s) {
  const Weights c_proj = {mlp_c_proj_weight, mlp_c_proj_bias, s.h(), s.inner(), gpt2_modules::mlp_c_proj};
  const Weights c_fc = {c_fc_weight, c_fc_bias, s.inner(), s.h(), gpt2_modules::c_fc};
  const ConstValues dout = through_dropout(s, DropoutSite::after_mlp);
  gelu_backward(s, dout);
  weight_gradient(s, c_proj, s.workspace.wide, dout);
  s.adapters.weight_gradients(c_proj.module, s.workspace.wide, dout, s.adapter_gradients);
  gradients(s, c_fc, s.workspace.norm, s.workspace.dpre);
  norm_gradient(s, LayerNormSite::ln_2, s.inside.middle);
}

void attention_half_backward(const Backward& s) {
  const Weights c_proj = {attn_c_proj_weight, attn_c_proj_bias, s.h(), s.h(), gpt2_modules::attn_c_proj};
  const Weights c_attn = {c_attn_weight, c_attn_bias, 3 * s.h(), s.h(), gpt2_modules::c_attn};
  const ConstValues dout = through_dropout(s, DropoutSite::after_attention);
  gradients(s, c_proj, s.inside.attention, dout);
  const Values dqkv = s.workspace.wide;
  s.c.kernels.attention_backward(
      {.shape = attention_shape(s.c.graph),
       .qkv = s.inside.qkv,
       .out = s.inside.attention,
       .lse = s.inside.lse,
       .dout = s.workspace.narrow,
       .dqkv = dqkv,
       .dropout = dropout_of(s.c, DropoutSite::attention, s.c.graph.config.attention_dropout),
       .scratch = {s.workspace.dpre.data, attention_scratch(s.c.graph).value}});
  layer_norm_of(s.c, s.w, LayerNormSite::ln_1,
                {.x = s.b.input, .y = s.workspace.norm, .mean = s.workspace.mean, .rstd = s.workspace.rstd});
  gradients(s, c_attn, s.workspace.norm, dqkv);
  norm_gradient(s, LayerNormSite::ln_1, s.b.input);
}

}  // namespace

void layer_backward(const BlockContext& c, const BlockBackward& b) {
  const LayerBackwardWorkspace workspace(c.graph, b.workspace,
                                         b.kept != nullptr ? Inside::kept : Inside::recomputed);
  CHECK(workspace.bytes <= block_of(c).backward_workspace, workspace.bytes.value, c.block);
  const LayerInside inside(c.graph, inside_frame(b, workspace));
  const Backward s = {
      .c = c,
      .b = b,
      .w = params_of(c, b.windows, 0),
      .g = gradients_of(c, b, 0),
      .adapters = Adapters(c, gpt2_linear_modules(c.graph.config), b.windows, workspace.adapters),
      .adapter_gradients = adapter_gradients_of(c, b),
      .workspace = workspace,
      .inside = inside};
  recompute(s);
  mlp_backward(s);
  attention_half_backward(s);
}

}  // namespace tidepool
