#include "model/mixers/softmax/softmax.h"

#include "model/mixers/softmax/frames.h"
#include "model/mixers/softmax/tensors.h"
#include "model/rope.h"

namespace tidepool::softmax {
namespace {

AttentionInside inside_of(const Layer& l, std::byte* base) {
  WorkspaceCutter layout(base);
  return {l.c.graph, l.number(), layout};
}
ForwardFrame forward_frame_of(const Layer& l, std::byte* workspace) {
  WorkspaceCutter layout(workspace);
  return {l.c.graph, l.number(), layout};
}
BackwardFrame backward_frame_of(const Layer& l, std::byte* workspace) {
  WorkspaceCutter layout(workspace);
  return {l.c.graph, l.number(), layout};
}

std::optional<AttentionShape> shape_of(const ModelGraph& g, u32 layer) {
  const u32 window = g.config.attention_window(layer);
  return AttentionShape{.sequences = g.batch.sequences,
                        .tokens = g.batch.tokens,
                        .heads = g.config.attention.heads,
                        .head_size = g.config.head_size(),
                        .kv_heads = g.config.kv_heads(),
                        .scale_size = g.config.softmax.scale_given,
                        .window = window < g.batch.tokens ? window : 0};
}

u64 inside_bytes(const ModelGraph& g, u32 layer) {
  WorkspaceCutter layout(nullptr);
  AttentionInside(g, layer, layout);
  return layout.used();
}

ForwardBuffers take_forward(const ModelGraph& g, u32 layer, WorkspaceCutter& layout) {
  const ForwardFrame f(g, layer, layout);
  return {.norm = f.narrow, .values = mlp_widths(g, layer).apart ? f.wide : Values{}, .inner = f.inner};
}

BackwardBuffers take_backward(const ModelGraph& g, u32 layer, WorkspaceCutter& layout) {
  const BackwardFrame f(g, layer, layout);
  return {.norm = f.norm, .narrow = f.narrow, .inner = f.wide, .dropped = f.dropped, .moments = f.moments};
}

Product qkv_product(const Layer& l) {
  if (traits(l.config().family).fused_projections) return l.product(Role::qkv, Role::q_bias);
  return l.product(Role::q, Role::q_bias, 3);
}

bool has_rotation(const Layer& l) { return l.style().positions == PositionKind::rotary; }

Rotary rotary_of(const Layer& l, const i32* starts, ConstValues qkv, Values out) {
  const ModelConfig& c = l.config();
  return {.shape = {.rows = rows_of(l.c),
                    .tokens = l.c.graph.batch.tokens,
                    .heads = c.attention.heads,
                    .kv_heads = c.kv_heads(),
                    .head_size = c.head_size(),
                    .rotated_size = c.rotary_size(),
                    .factor = static_cast<float>(c.rope(l.number()).rotary_factor())},
          .qkv = qkv,
          .out = out,
          .starts = starts,
          .inverse_frequencies = inverse_frequencies(c, l.number(), l.c.graph.batch.tokens),
          .q_norm = l[Role::q_norm],
          .k_norm = l[Role::k_norm],
          .norm_offset = l.style().norm_offset ? 1.0f : 0.0f,
          .epsilon = static_cast<float>(c.norm_epsilon)};
}

// out = q and k of `qkv`, normalised per head if the family does so, and rotated; and v unchanged.
void rotate(const Layer& l, const i32* starts, ConstValues qkv, Values out) {
  if (has_rotation(l)) l.c.kernels.rotary(rotary_of(l, starts, qkv, out));
}

void rotary_gradient(const LayerGradients& s, ConstValues qkv, Values dqkv) {
  if (!has_rotation(s.layer)) return;
  const Rotary forward = rotary_of(s.layer, s.b.batch.starts, qkv, dqkv);
  s.layer.c.kernels.rotary_backward({.shape = forward.shape,
                                     .qkv = s.config().qk_norm() ? forward.qkv : ConstValues{},
                                     .dqkv = dqkv,
                                     .starts = forward.starts,
                                     .inverse_frequencies = forward.inverse_frequencies,
                                     .q_norm = forward.q_norm,
                                     .k_norm = forward.k_norm,
                                     .norm_offset = forward.norm_offset,
                                     .epsilon = forward.epsilon,
                                     .dq_norm = s[Role::q_norm],
                                     .dk_norm = s[Role::k_norm],
                                     .accumulate = s.b.accumulate,
                                     .partials = s.frame.buffers.moments.partials});
}

Dropout dropout_of_weights(const Layer& l) {
  return dropout_of(l.c, DropoutSite::attention, l.config().attention.dropout);
}

// Places of forward's values. `rotated` and `qkv` are one array if q and k have no norms: the gradients of
// those norms need qkv from before the norm.
struct Places {
  Values qkv, rotated, attention;
  float* lse = nullptr;  // null: not stored
};
Places places_of(const Layer& l, const MixerForward& m) {
  const AttentionInside in = inside_of(l, m.inside);
  const bool norms = l.config().qk_norm();
  if (m.frame == Direction::backward)
    return {in.qkv, norms ? backward_frame_of(l, m.workspace).rotary : in.qkv, in.attention, in.lse};
  const ForwardFrame frame = forward_frame_of(l, m.workspace);
  if (m.inside == nullptr) return {frame.wide, frame.wide, frame.narrow};
  return {in.qkv, norms ? frame.wide : in.qkv, in.attention, in.lse};
}

void forward(const Layer& l, const MixerForward& m) {
  const Places to = places_of(l, m);
  product(l, qkv_product(l), m.norm, to.qkv);
  rotate(l, m.starts, to.qkv, to.rotated);
  l.c.kernels.attention({.shape = *shape_of(l.c.graph, l.number()),
                         .qkv = to.rotated,
                         .out = to.attention,
                         .lse = to.lse,
                         .starts = m.starts,
                         .dropout = dropout_of_weights(l),
                         .sinks = l[Role::sinks]});
  add_product(l, l.product(Role::o, Role::o_bias), to.attention, m.sum);
}

void restore(const LayerGradients& s) {
  if (!s.config().qk_norm()) return;
  rotate(s.layer, s.b.batch.starts, inside_of(s.layer, s.inside.mixer).qkv,
         backward_frame_of(s.layer, s.b.workspace).rotary);
}

void backward(const LayerGradients& s, ConstValues dout) {
  const Layer& l = s.layer;
  const AttentionInside in = inside_of(l, s.inside.mixer);
  const BackwardFrame frame = backward_frame_of(l, s.b.workspace);
  gradients(s, l.product(Role::o, Role::o_bias), in.attention, dout, frame.narrow);
  const Values dqkv = frame.wide;
  l.c.kernels.attention_backward({.shape = *shape_of(l.c.graph, l.number()),
                                  .qkv = s.config().qk_norm() ? frame.rotary : in.qkv,
                                  .out = in.attention,
                                  .lse = in.lse,
                                  .dout = frame.narrow,
                                  .dqkv = dqkv,
                                  .starts = s.b.batch.starts,
                                  .dropout = dropout_of_weights(l),
                                  .scratch = s.frame.scratch,
                                  .sinks = l[Role::sinks],
                                  .dsinks = s[Role::sinks],
                                  .accumulate = s.b.accumulate});
  rotary_gradient(s, in.qkv, dqkv);
  recompute_input_norm(s);
  gradients(s, qkv_product(l), frame.norm, dqkv, frame.narrow);
}

}  // namespace

const Mixer row = {.tensors = add_tensors,
                   .attention = shape_of,
                   .inside_always = false,
                   .inside_bytes = inside_bytes,
                   .forward_frame = take_forward,
                   .backward_frame = take_backward,
                   .forward = forward,
                   .restore = restore,
                   .backward = backward};

}  // namespace tidepool::softmax
