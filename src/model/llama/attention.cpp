// Attention with grouped queries and rotary positions, and with biases, norms of q and k, and sinks in
// families that have them.
#include "model/llama/layer.h"
#include "model/rope.h"

namespace tidepool::llama {
namespace {

using enum LayerTensor;

Product qkv_product(const ModelConfig& c) {
  return {traits(c.family).joined_projections ? LayerTensor::qkv : q, q_bias, c.qkv_width(), c.width,
          product_modules(c).qkv};
}
Product o_product(const ModelConfig& c) {
  return {o, o_bias, c.width, c.query_width(), product_modules(c).o};
}

Rotary rotary_of(const Layer& l, const i32* starts, ConstValues qkv, Values out) {
  return {.shape = rotary_shape(l.c.graph),
          .qkv = qkv,
          .out = out,
          .starts = starts,
          .inverse_frequencies = inverse_frequencies(l.config(), block_of(l.c).layer),
          .q_norm = l[q_norm],
          .k_norm = l[k_norm],
          .norm_offset = style(l.config().family).norm_offset ? 1.0f : 0.0f,
          .epsilon = static_cast<float>(l.config().norm_epsilon)};
}

void rotary_gradient(const LayerGradients& s, Values dqkv) {
  const Rotary forward = rotary_of(s.layer, s.b.starts, s.inside.qkv, dqkv);
  const bool norms = s.config().qk_norm();
  s.layer.c.kernels.rotary_backward({.shape = forward.shape,
                                     .qkv = norms ? forward.qkv : ConstValues{},
                                     .dqkv = dqkv,
                                     .starts = forward.starts,
                                     .inverse_frequencies = forward.inverse_frequencies,
                                     .q_norm = forward.q_norm,
                                     .k_norm = forward.k_norm,
                                     .norm_offset = forward.norm_offset,
                                     .epsilon = forward.epsilon,
                                     .dq_norm = s[q_norm],
                                     .dk_norm = s[k_norm],
                                     .accumulate = s.b.accumulate,
                                     .partials = s.workspace.moments.partials});
}

}  // namespace

void turn(const Layer& l, const i32* starts, ConstValues qkv, Values out) {
  l.c.kernels.rotary(rotary_of(l, starts, qkv, out));
}

void attention_half(const Layer& l, const AttentionHalf& a) {
  const BlockContext& c = l.c;
  norm_of(l, input_norm, a.x, a.norm);
  product(l, qkv_product(l.config()), a.norm, a.qkv);
  turn(l, a.starts, a.qkv, a.turned);
  c.kernels.attention({.shape = attention_shape(c.graph, block_of(c).layer),
                       .qkv = a.turned,
                       .out = a.attention,
                       .lse = a.lse,
                       .starts = a.starts,
                       .dropout = dropout_of(c, DropoutSite::attention, l.config().attention_dropout),
                       .sinks = l[sinks]});
  add_branch(
      l, o_product(l.config()),
      {.norm = attention_branch_norm, .x = a.attention, .residual = a.x, .branch = a.branch, .y = a.middle});
}

void attention_half_backward(const LayerGradients& s) {
  const BlockContext& c = s.layer.c;
  const Product o = o_product(s.config()), qkv = qkv_product(s.config());
  const ConstValues dout =
      branch_gradient(s, attention_branch_norm, s.inside.attention_branch, s.workspace.norm);
  gradients(s, o, s.inside.attention, dout, s.workspace.narrow);
  const Values dqkv = s.workspace.wide;
  c.kernels.attention_backward(
      {.shape = attention_shape(c.graph, block_of(c).layer),
       .qkv = s.turned(),
       .out = s.inside.attention,
       .lse = s.inside.lse,
       .dout = s.workspace.narrow,
       .dqkv = dqkv,
       .starts = s.b.starts,
       .dropout = dropout_of(c, DropoutSite::attention, s.config().attention_dropout),
       .scratch = {s.workspace.dgate_up.data, attention_scratch(c.graph).value},
       .sinks = s.layer[sinks],
       .dsinks = s[sinks],
       .accumulate = s.b.accumulate});
  rotary_gradient(s, dqkv);
  norm_of(s.layer, input_norm, s.b.input, s.workspace.norm, &s.workspace.moments);
  gradients(s, qkv, s.workspace.norm, dqkv, s.workspace.narrow);
  norm_gradient(s, input_norm, s.b.input);
}

}  // namespace tidepool::llama
