// Latent attention: q, k and v are made from latents with norms of their own, and the last columns of heads
// of q and k are rotated.
#include "model/deepseek/layer.h"
#include "model/rope.h"

namespace tidepool::deepseek {
namespace {

using enum LayerTensor;

struct Products {
  Product q, q_a, q_b, kv_a, kv_b, o;
};
Products products_of(const Layer& l) {
  const LatentShape s = latent_shape(l.c.graph);
  const u32 h = l.config().width, query_rank = l.config().latent.query_rank;
  const ProductModules m = l.modules();
  return {.q = {.weight = q, .n = s.q_columns(), .k = h, .modules = m.q},
          .q_a = {.weight = q_a, .bias = q_a_bias, .n = query_rank, .k = h, .modules = m.q_a},
          .q_b = {.weight = q_b, .n = s.q_columns(), .k = query_rank, .modules = m.q_b},
          .kv_a = {.weight = kv_a, .bias = kv_a_bias, .n = s.low_columns(), .k = h, .modules = m.kv_a},
          .kv_b = {.weight = kv_b, .n = s.kv_columns(), .k = s.rank, .modules = m.kv_b},
          .o = {.weight = o, .bias = o_bias, .n = h, .k = s.heads * s.value_size, .modules = m.o}};
}

bool has_query_latent(const Layer& l) { return l.config().latent.query_rank != 0; }

// Norm of a latent with `columns` columns.
void latent_norm(const Layer& l, LayerTensor weight, u32 columns, ConstValues x, Values y,
                 float* rstd = nullptr) {
  l.c.kernels.rms_norm({.rows = rows_of(l.c),
                        .columns = columns,
                        .x = x,
                        .weight = l[weight],
                        .epsilon = static_cast<float>(style(l.config().family).norm_epsilon),
                        .y = y,
                        .rstd = rstd});
}

// workspace.dlatent: the gradient of the norm's output becomes that of its input x.
void latent_norm_gradient(const LayerGradients& s, LayerTensor weight, u32 columns, ConstValues x) {
  s.layer.c.kernels.rms_norm_backward({.rows = rows_of(s.layer.c),
                                       .columns = columns,
                                       .x = x,
                                       .weight = s.layer[weight],
                                       .rstd = s.workspace.latent_rstd,
                                       .dy = s.workspace.dlatent,
                                       .dx = s.workspace.dlatent,
                                       .dweight = s[weight],
                                       .accumulate = s.b.accumulate,
                                       .partials = s.workspace.moments.partials});
}

// scratch.normed = norm of the latent of k and v, which it first takes out of `low`.
void key_latent(const Layer& l, ConstValues low, const LatentScratch& scratch, float* rstd = nullptr) {
  const LatentShape s = latent_shape(l.c.graph);
  l.c.kernels.copy_columns({.rows = s.rows,
                            .columns = s.rank,
                            .x = low,
                            .x_stride = s.low_columns(),
                            .y = scratch.latent,
                            .y_stride = s.rank});
  latent_norm(l, kv_a_norm, s.rank, scratch.latent, scratch.normed, rstd);
}

void key_gradients(const LayerGradients& s, const Products& p) {
  const BackwardWorkspace& w = s.workspace;
  const LatentShape shape = latent_shape(s.layer.c.graph);
  key_latent(s.layer, s.inside.low, w.latents, w.latent_rstd);
  gradients(s, p.kv_b, w.latents.normed, w.latents.kv, w.dlatent);
  latent_norm_gradient(s, kv_a_norm, shape.rank, w.latents.latent);
  s.layer.c.kernels.copy_columns({.rows = shape.rows,
                                  .columns = shape.rank,
                                  .x = w.dlatent,
                                  .x_stride = shape.rank,
                                  .y = w.dlow,
                                  .y_stride = shape.low_columns()});
  gradients(s, p.kv_a, w.norm, w.dlow, w.narrow);
}

// Adds to the gradient of key_gradients().
void query_gradients(const LayerGradients& s, const Products& p) {
  const BackwardWorkspace& w = s.workspace;
  constexpr bool add = true;
  if (!has_query_latent(s.layer)) return gradients(s, p.q, w.norm, w.latents.q, w.narrow, add);
  latent_norm(s.layer, q_a_norm, p.q_a.n, s.inside.q_low, w.latents.normed, w.latent_rstd);
  gradients(s, p.q_b, w.latents.normed, w.latents.q, w.dlatent);
  latent_norm_gradient(s, q_a_norm, p.q_a.n, s.inside.q_low);
  gradients(s, p.q_a, w.norm, w.dlatent, w.narrow, add);
}

}  // namespace

void attention_half(const Layer& l, const AttentionHalf& a) {
  const BlockContext& c = l.c;
  const Products p = products_of(l);
  const LatentScratch& scratch = a.latents;
  norm_of(l, input_norm, a.x, a.norm);
  if (has_query_latent(l)) {
    product(l, p.q_a, a.norm, a.inside.q_low);
    latent_norm(l, q_a_norm, p.q_a.n, a.inside.q_low, scratch.normed);
    product(l, p.q_b, scratch.normed, scratch.q);
  } else {
    product(l, p.q, a.norm, scratch.q);
  }
  product(l, p.kv_a, a.norm, a.inside.low);
  key_latent(l, a.inside.low, scratch);
  product(l, p.kv_b, scratch.normed, scratch.kv);
  c.kernels.latent_rows({.shape = latent_shape(c.graph),
                         .q = scratch.q,
                         .kv = scratch.kv,
                         .low = a.inside.low,
                         .out = a.inside.qkv,
                         .starts = a.starts,
                         .inverse_frequencies = inverse_frequencies(l.config(), block_of(c).layer)});
  c.kernels.attention({.shape = attention_shape(c.graph, block_of(c).layer),
                       .qkv = a.inside.qkv,
                       .out = a.inside.attention,
                       .lse = a.inside.lse,
                       .starts = a.starts,
                       .dropout = dropout_of(c, DropoutSite::attention, l.config().attention_dropout)});
  product(l, p.o, a.inside.attention, a.inside.middle, a.x);
}

void attention_half_backward(const LayerGradients& s) {
  const BlockContext& c = s.layer.c;
  const BackwardWorkspace& w = s.workspace;
  const Products p = products_of(s.layer);
  gradients(s, p.o, s.inside.attention, s.b.grad, w.narrow);
  c.kernels.attention_backward(
      {.shape = attention_shape(c.graph, block_of(c).layer),
       .qkv = s.inside.qkv,
       .out = s.inside.attention,
       .lse = s.inside.lse,
       .dout = w.narrow,
       .dqkv = w.dqkv,
       .starts = s.b.starts,
       .dropout = dropout_of(c, DropoutSite::attention, s.config().attention_dropout),
       .scratch = w.scratch});
  c.kernels.latent_rows_backward({.shape = latent_shape(c.graph),
                                  .dout = w.dqkv,
                                  .dq = w.latents.q,
                                  .dkv = w.latents.kv,
                                  .dlow = w.dlow,
                                  .starts = s.b.starts,
                                  .inverse_frequencies = inverse_frequencies(s.config(), block_of(c).layer)});
  norm_of(s.layer, input_norm, s.b.input, w.norm, &w.moments);
  key_gradients(s, p);
  query_gradients(s, p);
  norm_gradient(s, input_norm, s.b.input, w.narrow, s.b.accumulate);
}

}  // namespace tidepool::deepseek
