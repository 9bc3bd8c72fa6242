// x + o(attention(norm(x))), then + down(swiglu(gate_up(norm(.)))).
#include "base/check.h"
#include "model/llama_inside.h"
#include "model/rope.h"

namespace tidepool {
namespace {

using enum LlamaTensor;

Matmul matmul_of(const BlockContext& c, const LlamaParams& w, const LlamaProduct& p) {
  return {.m = rows_of(c), .n = p.n, .k = p.k, .weight = w[p.weight], .transposed = true, .bias = w[p.bias]};
}

}  // namespace

LlamaProduct qkv_product(const ModelConfig& c) {
  return {q, q_bias, c.qkv_width(), c.width, llama_modules::qkv};
}
LlamaProduct o_product(const ModelConfig& c) {
  return {o, o_bias, c.width, c.query_width(), llama_modules::o};
}
LlamaProduct gate_up_product(const ModelConfig& c) {
  return {gate, gate_bias, 2 * c.inner(), c.width, llama_modules::gate_up};
}
LlamaProduct down_product(const ModelConfig& c) {
  return {down, down_bias, c.width, c.inner(), llama_modules::down};
}

void llama_product(const BlockContext& c, const LlamaParams& w, const LlamaProduct& p, ConstValues x,
                   Values y) {
  Matmul product = matmul_of(c, w, p);
  product.x = x, product.y = y;
  c.kernels.matmul(product);
  w.adapters.add_to(p.modules, x, y);
}

void llama_residual_product(const BlockContext& c, const LlamaParams& w, const LlamaProduct& p, ConstValues x,
                            Values y, ConstValues residual) {
  Matmul product = matmul_of(c, w, p);
  product.x = x, product.y = y;
  product.epilogue = Epilogue::residual;
  product.residual = residual;
  c.kernels.matmul(product);
  w.adapters.add_to(p.modules, x, y);
}

void llama_norm(const BlockContext& c, const LlamaParams& w, LlamaTensor weight, const RmsNormCall& call) {
  c.kernels.rms_norm({.rows = rows_of(c),
                      .columns = c.graph.config.width,
                      .x = call.x,
                      .weight = w[weight],
                      .epsilon = static_cast<float>(c.graph.config.norm_epsilon),
                      .y = call.y,
                      .rstd = call.rstd});
}

Rotary rotary_of(const BlockContext& c, const LlamaParams& w, const i32* starts, ConstValues qkv,
                 Values out) {
  return {.shape = rotary_shape(c.graph),
          .qkv = qkv,
          .out = out,
          .starts = starts,
          .inverse_frequencies = inverse_frequencies(c.graph.config),
          .q_norm = w[q_norm],
          .k_norm = w[k_norm],
          .epsilon = static_cast<float>(c.graph.config.norm_epsilon)};
}

void llama_attention_half(const BlockContext& c, const LlamaParams& w, const LlamaAttentionHalf& a) {
  const ModelConfig& config = c.graph.config;
  llama_norm(c, w, input_norm, {.x = a.x, .y = a.norm});
  llama_product(c, w, qkv_product(config), a.norm, a.qkv);
  c.kernels.rotary(rotary_of(c, w, a.starts, a.qkv, a.turned));
  c.kernels.attention({.shape = attention_shape(c.graph),
                       .qkv = a.turned,
                       .out = a.attention,
                       .lse = a.lse,
                       .starts = a.starts,
                       .dropout = dropout_of(c, DropoutSite::attention, config.attention_dropout)});
  llama_residual_product(c, w, o_product(config), a.attention, a.middle, a.x);
}

void llama_layer_forward(const BlockContext& c, const BlockForward& f) {
  const ModelConfig& config = c.graph.config;
  CHECK(f.output.data != f.input.data, c.block);
  const LlamaForwardWorkspace workspace(c.graph, f.workspace);
  const LlamaInside kept(c.graph, f.kept);
  CHECK(workspace.bytes == block_of(c).forward_workspace && kept.bytes == block_of(c).kept, c.block);
  const bool keep = f.kept != nullptr;
  const LlamaParams w = llama_params(c, f.windows, workspace.adapters);
  const Values qkv = keep ? kept.qkv : workspace.wide;
  const LlamaAttentionHalf half = {.x = f.input,
                                   .starts = f.starts,
                                   .norm = workspace.narrow,
                                   .qkv = qkv,
                                   .turned = keep && config.qk_norm() ? workspace.wide : qkv,
                                   .attention = keep ? kept.attention : workspace.narrow,
                                   .lse = kept.lse,
                                   .middle = keep ? kept.middle : f.output};
  llama_attention_half(c, w, half);
  llama_norm(c, w, post_norm, {.x = half.middle, .y = workspace.narrow});
  const Values gate_up = keep ? kept.gate_up : workspace.wide;
  llama_product(c, w, gate_up_product(config), workspace.narrow, gate_up);
  c.kernels.swiglu({.rows = rows_of(c), .columns = config.inner(), .gate_up = gate_up, .y = workspace.inner});
  llama_residual_product(c, w, down_product(config), workspace.inner, f.output, half.middle);
}

}  // namespace tidepool
