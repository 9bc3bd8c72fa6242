// GPT-2's attention: as many heads of keys and values as of queries. One product with biases computes q, k
// and v.
#include "model/gpt2/layer.h"

namespace tidepool::gpt2 {

using enum LayerTensor;

void attention_half(const Layer& l, const AttentionHalf& a) {
  const BlockContext& c = l.c;
  norm_of(l, NormSite::ln_1, a.x, a.norm);
  c.kernels.matmul({.m = rows_of(c),
                    .n = 3 * l.h(),
                    .k = l.h(),
                    .x = a.norm,
                    .weight = l.window[c_attn_weight],
                    .bias = l.window[c_attn_bias],
                    .y = a.qkv});
  l.adapters.add_to(modules::c_attn, a.norm, a.qkv);
  c.kernels.attention({.shape = attention_shape(c.graph, block_of(c).layer),
                       .qkv = a.qkv,
                       .out = a.attention,
                       .lse = a.lse,
                       .dropout = dropout_of(c, DropoutSite::attention, c.graph.config.attention_dropout)});
  residual_product(
      l, {attn_c_proj_weight, attn_c_proj_bias, modules::attn_c_proj, DropoutSite::after_attention, l.h()},
      a.attention, a.middle, a.x);
}

void attention_half_backward(const LayerGradients& s) {
  const Layer& l = s.layer;
  const BlockContext& c = l.c;
  const Product c_proj = {attn_c_proj_weight, attn_c_proj_bias, l.h(), l.h(), modules::attn_c_proj};
  const Product c_attn = {c_attn_weight, c_attn_bias, 3 * l.h(), l.h(), modules::c_attn};
  const ConstValues dout = through_dropout(s, DropoutSite::after_attention);
  gradients(s, c_proj, s.inside.attention, dout);
  const Values dqkv = s.workspace.wide;
  c.kernels.attention_backward(
      {.shape = attention_shape(c.graph, block_of(c).layer),
       .qkv = s.inside.qkv,
       .out = s.inside.attention,
       .lse = s.inside.lse,
       .dout = s.workspace.narrow,
       .dqkv = dqkv,
       .dropout = dropout_of(c, DropoutSite::attention, c.graph.config.attention_dropout),
       .scratch = {s.workspace.dpre.data, attention_scratch(c.graph).value}});
  norm_of(l, NormSite::ln_1, s.b.input, s.workspace.norm, &s.workspace.moments);
  gradients(s, c_attn, s.workspace.norm, dqkv);
  norm_gradient(s, NormSite::ln_1, s.b.input);
}

}  // namespace tidepool::gpt2
