// Backward of a Llama-like layer, from the end: MLP, then attention. `grad` is the gradient of the residual
// stream and stays in place; each half adds its share to it.
#include "base/check.h"
#include "model/llama_inside.h"

namespace tidepool {
namespace {

using enum LlamaTensor;

struct Backward {
  const BlockContext& c;
  const BlockBackward& b;
  const LlamaParams w;
  const LlamaGradients g;
  const AdapterGradients adapters;
  const LlamaBackwardWorkspace& workspace;
  const LlamaInside& inside;

  const ModelConfig& config() const { return c.graph.config; }
  // Where attention finds q and k.
  Values turned() const { return config().qk_norm() ? workspace.turned : inside.qkv; }
};

// The kept inside is only read: `gate_up` alone is overwritten, and only where it was recomputed.
std::byte* inside_frame(const BlockBackward& b, const LlamaBackwardWorkspace& workspace) {
  return b.kept != nullptr ? const_cast<std::byte*>(b.kept) : workspace.inside;
}

// The second norm's output and root, q and k as attention saw them, and without kept everything before.
void recompute(const Backward& s) {
  const LlamaInside& in = s.inside;
  const bool kept = s.b.kept != nullptr;
  if (!kept) {
    llama_attention_half(s.c, s.w,
                         {.x = s.b.input,
                          .starts = s.b.starts,
                          .norm = s.workspace.norm,
                          .qkv = in.qkv,
                          .turned = s.turned(),
                          .attention = in.attention,
                          .lse = in.lse,
                          .middle = in.middle});
  } else if (s.config().qk_norm()) {
    s.c.kernels.rotary(rotary_of(s.c, s.w, s.b.starts, in.qkv, s.workspace.turned));
  }
  llama_norm(s.c, s.w, post_norm, {.x = in.middle, .y = s.workspace.norm, .rstd = s.workspace.rstd});
  if (!kept) llama_product(s.c, s.w, gate_up_product(s.config()), s.workspace.norm, in.gate_up);
}

// Of the weights if they are trained.
void weight_gradient(const Backward& s, const LlamaProduct& p, ConstValues x, ConstValues dy) {
  if (s.g[p.weight] == nullptr) return;
  s.c.kernels.weight_gradient({.m = rows_of(s.c),
                               .n = p.n,
                               .k = p.k,
                               .x = x,
                               .dy = dy,
                               .dw = s.g[p.weight],
                               .dbias = s.g[p.bias],
                               .accumulate = s.b.accumulate,
                               .transposed = true});
}

// dx = dy w
void input_gradient(const Backward& s, const LlamaProduct& p, ConstValues dy, Values dx) {
  s.c.kernels.matmul({.m = rows_of(s.c), .n = p.k, .k = p.n, .x = dy, .weight = s.w[p.weight], .y = dx});
}

// Both, and of and through the product's adapters.
void gradients(const Backward& s, const LlamaProduct& p, ConstValues x, ConstValues dy, Values dx) {
  weight_gradient(s, p, x, dy);
  input_gradient(s, p, dy, dx);
  s.w.adapters.gradients(p.modules, x, dy, dx, s.adapters);
}

// grad += gradient of the norm's input, from workspace.narrow.
void norm_gradient(const Backward& s, LlamaTensor weight, ConstValues x) {
  s.c.kernels.rms_norm_backward({.rows = rows_of(s.c),
                                 .columns = s.config().width,
                                 .x = x,
                                 .weight = s.w[weight],
                                 .rstd = s.workspace.rstd,
                                 .dy = s.workspace.narrow,
                                 .dx = s.b.grad,
                                 .add_to_dx = true,
                                 .dweight = s.g[weight],
                                 .accumulate = s.b.accumulate,
                                 .partials = s.workspace.partials});
}

void mlp_backward(const Backward& s) {
  const LlamaProduct down = down_product(s.config()), gate_up = gate_up_product(s.config());
  const Values inner = s.workspace.wide;
  // SwiGLU makes its x on the way, so its adapters' gradients are apart.
  input_gradient(s, down, s.b.grad, inner);
  s.w.adapters.add_input_gradient(down.modules, s.b.grad, inner);
  // Makes SwiGLU's output again on the way: one exp serves both.
  s.c.kernels.swiglu_backward({.rows = rows_of(s.c),
                               .columns = s.config().inner(),
                               .gate_up = s.inside.gate_up,
                               .dy = inner,
                               .dgate_up = s.workspace.dgate_up,
                               .value = inner});
  weight_gradient(s, down, inner, s.b.grad);
  s.w.adapters.weight_gradients(down.modules, inner, s.b.grad, s.adapters);
  gradients(s, gate_up, s.workspace.norm, s.workspace.dgate_up, s.workspace.narrow);
  norm_gradient(s, post_norm, s.inside.middle);
}

void rotary_gradient(const Backward& s, Values dqkv) {
  const Rotary forward = rotary_of(s.c, s.w, s.b.starts, s.inside.qkv, dqkv);
  const bool norms = s.config().qk_norm();
  s.c.kernels.rotary_backward({.shape = forward.shape,
                               .qkv = norms ? forward.qkv : ConstValues{},
                               .dqkv = dqkv,
                               .starts = forward.starts,
                               .inverse_frequencies = forward.inverse_frequencies,
                               .q_norm = forward.q_norm,
                               .k_norm = forward.k_norm,
                               .epsilon = forward.epsilon,
                               .dq_norm = s.g[q_norm],
                               .dk_norm = s.g[k_norm],
                               .accumulate = s.b.accumulate,
                               .partials = s.workspace.partials});
}

void attention_half_backward(const Backward& s) {
  const LlamaProduct o = o_product(s.config()), qkv = qkv_product(s.config());
  gradients(s, o, s.inside.attention, s.b.grad, s.workspace.narrow);
  const Values dqkv = s.workspace.wide;
  s.c.kernels.attention_backward(
      {.shape = attention_shape(s.c.graph),
       .qkv = s.turned(),
       .out = s.inside.attention,
       .lse = s.inside.lse,
       .dout = s.workspace.narrow,
       .dqkv = dqkv,
       .starts = s.b.starts,
       .dropout = dropout_of(s.c, DropoutSite::attention, s.config().attention_dropout),
       .scratch = {s.workspace.dgate_up.data, attention_scratch(s.c.graph).value}});
  rotary_gradient(s, dqkv);
  llama_norm(s.c, s.w, input_norm, {.x = s.b.input, .y = s.workspace.norm, .rstd = s.workspace.rstd});
  gradients(s, qkv, s.workspace.norm, dqkv, s.workspace.narrow);
  norm_gradient(s, input_norm, s.b.input);
}

}  // namespace

void llama_layer_backward(const BlockContext& c, const BlockBackward& b) {
  const LlamaBackwardWorkspace workspace(c.graph, b.workspace,
                                         b.kept != nullptr ? Inside::kept : Inside::recomputed);
  CHECK(workspace.bytes <= block_of(c).backward_workspace, workspace.bytes.value, c.block);
  const LlamaInside inside(c.graph, inside_frame(b, workspace));
  const Backward s = {.c = c,
                      .b = b,
                      .w = llama_params(c, b.windows, workspace.adapters),
                      .g = {c.graph.config, gradients_of(c, b, 0)},
                      .adapters = adapter_gradients_of(c, b),
                      .workspace = workspace,
                      .inside = inside};
  recompute(s);
  mlp_backward(s);
  attention_half_backward(s);
}

}  // namespace tidepool
