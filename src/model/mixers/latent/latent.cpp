#include "model/mixers/latent/latent.h"

#include "model/mixers/key_past.h"
#include "model/mixers/latent/frames.h"
#include "model/mixers/latent/tensors.h"
#include "model/rope.h"

namespace tidepool::latent {
namespace {

std::optional<AttentionShape> attention_of(const ModelGraph& g, u32 layer) {
  const ModelConfig& c = g.config;
  const u32 window = c.attention_window(layer);
  return AttentionShape{.sequences = g.batch.tiled() ? 1 : g.batch.sequences,
                        .tokens = g.batch.tiled() ? g.batch.tile_tokens : g.batch.tokens,
                        .heads = c.attention.heads,
                        .head_size = c.head_size(),
                        .kv_heads = c.kv_heads(),
                        .scale_size = c.softmax.scale_given,
                        .window = window < g.batch.tokens ? window : 0,
                        .value_size = c.latent.v_head_dim,
                        .scale_given = static_cast<float>(c.attention_scale())};
}

// The past of a token are k and v of all heads: the latent would have to be multiplied again by every tile.
PastBytes past_bytes(const ModelGraph& g, u32) {
  const ModelConfig& c = g.config;
  return past_of_keys(g, c.attention.heads * (c.head_size() + c.latent.v_head_dim));
}

// RETURNS: the shape of the tile's rows.
LatentShape shape_of(const Layer& l) {
  LatentShape shape = latent::shape_of(l.c.graph);
  if (!l.c.graph.batch.tiled()) return shape;
  shape.rows = shape.tokens = rows_of(l.c);
  shape.first_token = l.c.tile.first_token;
  return shape;
}

KeyColumns key_columns(const Layer& l) {
  const LatentShape shape = shape_of(l);
  return {
      .begin = shape.q_columns(), .count = shape.columns() - shape.q_columns(), .stride = shape.columns()};
}

u64 inside_bytes(const ModelGraph& g, u32 layer) {
  WorkspaceCutter layout(nullptr);
  AttentionInside(g, layer, layout);
  return layout.used();
}

ForwardBuffers take_forward(const ModelGraph& g, u32 layer, MlpWidths, WorkspaceCutter& layout) {
  const ForwardFrame f(g, layer, layout);
  return {.norm = f.norm, .inner = f.latents.q};
}

BackwardBuffers take_backward(const ModelGraph& g, u32 layer, MlpWidths, WorkspaceCutter& layout) {
  const BackwardFrame f(g, layer, layout);
  return {.norm = f.norm, .narrow = f.narrow, .inner = f.latents.q, .moments = f.moments};
}

AttentionInside inside_of(const Layer& l, std::byte* base) {
  WorkspaceCutter layout(base);
  return {l.c.graph, l.number(), layout};
}

LatentScratch scratch_of(const Layer& l, const MixerForward& m) {
  WorkspaceCutter layout(m.workspace);
  return m.frame == Direction::forward ? ForwardFrame(l.c.graph, l.number(), layout).latents
                                       : BackwardFrame(l.c.graph, l.number(), layout).latents;
}

bool has_query_latent(const Layer& l) { return l.config().latent.q_lora_rank != 0; }

Product q_product(const Layer& l) { return l.product(Role::q, Role::absent); }
Product q_a_product(const Layer& l) { return l.product(Role::q_a, Role::q_a_bias); }
Product q_b_product(const Layer& l) { return l.product(Role::q_b, Role::absent); }
Product kv_a_product(const Layer& l) { return l.product(Role::kv_a, Role::kv_a_bias); }
Product kv_b_product(const Layer& l) { return l.product(Role::kv_b, Role::absent); }
Product o_product(const Layer& l) { return l.product(Role::o, Role::o_bias); }

// Norm of a latent with `columns` columns. Its epsilon is the style's, whatever config.json says.
void latent_norm(const Layer& l, Role weight, u32 columns, ConstValues x, Values y, float* rstd = nullptr) {
  l.c.kernels.rms_norm({.rows = rows_of(l.c),
                        .columns = columns,
                        .x = x,
                        .weight = l[weight],
                        .epsilon = static_cast<float>(l.style().norm_epsilon),
                        .y = y,
                        .rstd = rstd});
}

// State of backward: the layer's, and the mixer's frames.
struct Backward {
  const LayerGradients& s;
  const AttentionInside in;
  const BackwardFrame frame;
};

// frame.dlatent: the gradient of the norm's output becomes that of its input x.
void latent_norm_gradient(const Backward& b, Role weight, u32 columns, ConstValues x) {
  const Layer& l = b.s.layer;
  l.c.kernels.rms_norm_backward({.rows = rows_of(l.c),
                                 .columns = columns,
                                 .x = x,
                                 .weight = l[weight],
                                 .rstd = b.frame.latent_rstd,
                                 .dy = b.frame.dlatent,
                                 .dx = b.frame.dlatent,
                                 .dweight = b.s[weight],
                                 .accumulate = b.s.b.accumulate,
                                 .partials = b.frame.moments.partials});
}

// scratch.normed = norm of the latent of k and v, which it first takes out of `low`.
void key_latent(const Layer& l, ConstValues low, const LatentScratch& scratch, float* rstd = nullptr) {
  const LatentShape s = shape_of(l);
  l.c.kernels.copy_columns({.rows = s.rows,
                            .columns = s.kv_lora_rank,
                            .x = low,
                            .x_stride = s.low_columns(),
                            .y = scratch.latent,
                            .y_stride = s.kv_lora_rank});
  latent_norm(l, Role::kv_a_norm, s.kv_lora_rank, scratch.latent, scratch.normed, rstd);
}

void key_gradients(const Backward& b) {
  const Layer& l = b.s.layer;
  const BackwardFrame& w = b.frame;
  const LatentShape shape = shape_of(l);
  key_latent(l, b.in.low, w.latents, w.latent_rstd);
  gradients(b.s, kv_b_product(l), w.latents.normed, w.latents.kv, w.dlatent);
  latent_norm_gradient(b, Role::kv_a_norm, shape.kv_lora_rank, w.latents.latent);
  l.c.kernels.copy_columns({.rows = shape.rows,
                            .columns = shape.kv_lora_rank,
                            .x = w.dlatent,
                            .x_stride = shape.kv_lora_rank,
                            .y = w.dlow,
                            .y_stride = shape.low_columns()});
  gradients(b.s, kv_a_product(l), w.norm, w.dlow, w.narrow);
}

// Adds to the gradient of key_gradients().
void query_gradients(const Backward& b) {
  const Layer& l = b.s.layer;
  const BackwardFrame& w = b.frame;
  constexpr bool add = true;
  if (!has_query_latent(l)) return gradients(b.s, q_product(l), w.norm, w.latents.q, w.narrow, add);
  const u32 rank = l.config().latent.q_lora_rank;
  latent_norm(l, Role::q_a_norm, rank, b.in.q_low, w.latents.normed, w.latent_rstd);
  gradients(b.s, q_b_product(l), w.latents.normed, w.latents.q, w.dlatent);
  latent_norm_gradient(b, Role::q_a_norm, rank, b.in.q_low);
  gradients(b.s, q_a_product(l), w.norm, w.dlatent, w.narrow, add);
}

// q, k and v; k and v also to the past.
void project(const Layer& l, const MixerForward& m, const AttentionInside& in) {
  const LatentScratch scratch = scratch_of(l, m);
  if (has_query_latent(l)) {
    product(l, q_a_product(l), m.norm, in.q_low);
    latent_norm(l, Role::q_a_norm, l.config().latent.q_lora_rank, in.q_low, scratch.normed);
    product(l, q_b_product(l), scratch.normed, scratch.q);
  } else {
    product(l, q_product(l), m.norm, scratch.q);
  }
  product(l, kv_a_product(l), m.norm, in.low);
  key_latent(l, in.low, scratch);
  product(l, kv_b_product(l), scratch.normed, scratch.kv);
  l.c.kernels.latent_rows(
      {.shape = shape_of(l),
       .q = scratch.q,
       .kv = scratch.kv,
       .low = in.low,
       .out = in.qkv,
       .starts = m.starts,
       .inverse_frequencies = inverse_frequencies(l.config(), l.number(), l.c.graph.batch.tokens)});
  copy_to_past(l, key_columns(l), in.qkv, m.past);
}

void add_to_past(const Layer& l, const MixerForward& m) { project(l, m, inside_of(l, m.inside)); }

void forward(const Layer& l, const MixerForward& m) {
  const BlockContext& c = l.c;
  const AttentionInside in = inside_of(l, m.inside);
  project(l, m, in);
  c.kernels.attention({.shape = tile_shape(l),
                       .tile = tile_of(l, m.past),
                       .qkv = in.qkv,
                       .out = in.attention,
                       .lse = in.lse,
                       .starts = m.starts,
                       .dropout = dropout_of(c, DropoutSite::attention, l.config().attention.dropout)});
  add_product(l, o_product(l), in.attention, m.sum);
}

void restore(const LayerGradients&) {}

void restore_past(const LayerGradients& s) {
  copy_to_past(s.layer, key_columns(s.layer), inside_of(s.layer, s.inside.mixer).qkv, s.past);
}

void backward(const LayerGradients& s, ConstValues dout) {
  const Layer& l = s.layer;
  const BlockContext& c = l.c;
  WorkspaceCutter layout(s.b.workspace);
  const Backward b = {s, inside_of(l, s.inside.mixer), BackwardFrame(c.graph, l.number(), layout)};
  const BackwardFrame& w = b.frame;
  gradients(s, o_product(l), b.in.attention, dout, w.narrow);
  c.kernels.attention_backward(
      {.shape = tile_shape(l),
       .tile = tile_of(l, s.past),
       .qkv = b.in.qkv,
       .out = b.in.attention,
       .lse = b.in.lse,
       .dout = w.narrow,
       .dqkv = w.dqkv,
       .dpast = past_gradients(s),
       .starts = s.b.batch.starts,
       .dropout = dropout_of(c, DropoutSite::attention, l.config().attention.dropout),
       .scratch = s.frame.scratch});
  take_past_gradients(s, key_columns(l), w.dqkv);
  c.kernels.latent_rows_backward(
      {.shape = shape_of(l),
       .dout = w.dqkv,
       .dq = w.latents.q,
       .dkv = w.latents.kv,
       .dlow = w.dlow,
       .starts = s.b.batch.starts,
       .inverse_frequencies = inverse_frequencies(l.config(), l.number(), l.c.graph.batch.tokens)});
  recompute_input_norm(s);
  key_gradients(b);
  query_gradients(b);
}

}  // namespace

const Mixer row = {.tensors = add_tensors,
                   .attention = attention_of,
                   .inside_always = true,
                   .past_bytes = past_bytes,
                   .inside_bytes = inside_bytes,
                   .forward_frame = take_forward,
                   .backward_frame = take_backward,
                   .add_to_past = add_to_past,
                   .restore_past = restore_past,
                   .forward = forward,
                   .restore = restore,
                   .backward = backward};

}  // namespace tidepool::latent
