#include "model/mixers/softmax/softmax.h"

#include "model/mixers/key_past.h"
#include "model/mixers/softmax/frames.h"
#include "model/mixers/softmax/tensors.h"
#include "model/mixers/softmax/whole_norms.h"
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
  return AttentionShape{.sequences = g.batch.tiled() ? 1 : g.batch.sequences,
                        .tokens = g.batch.tiled() ? g.batch.tile_tokens : g.batch.tokens,
                        .heads = g.config.attention.heads,
                        .head_size = g.config.head_size(layer),
                        .kv_heads = g.config.kv_heads(layer),
                        .scale_size = g.config.softmax.scale_given,
                        .window = window < g.batch.tokens ? window : 0,
                        .scale_given = static_cast<float>(g.config.softmax.score_factor),
                        .cap = static_cast<float>(g.config.softmax.soft_cap)};
}

// The past of a token are its k and v.
PastBytes past_bytes(const ModelGraph& g, u32 layer) {
  return past_of_keys(g, 2 * g.config.key_width(layer));
}

u64 inside_bytes(const ModelGraph& g, u32 layer) {
  WorkspaceCutter layout(nullptr);
  AttentionInside(g, layer, layout);
  return layout.used();
}

ForwardBuffers take_forward(const ModelGraph& g, u32 layer, MlpWidths, WorkspaceCutter& layout) {
  const ForwardFrame f(g, layer, layout);
  return {.norm = f.narrow, .values = mlp_widths(g, layer).apart ? f.wide : Values{}, .inner = f.inner};
}

BackwardBuffers take_backward(const ModelGraph& g, u32 layer, MlpWidths, WorkspaceCutter& layout) {
  const BackwardFrame f(g, layer, layout);
  return {.norm = f.norm, .narrow = f.narrow, .inner = f.wide, .dropped = f.dropped, .moments = f.moments};
}

Product qkv_product(const Layer& l) {
  if (traits(l.config().family).fused_projections) return l.product(Role::qkv, Role::q_bias);
  const ModelConfig& c = l.config();
  const u32 matrices = c.reads_keys(l.number()) ? 1 : c.keys_are_values(l.number()) ? 2 : 3;
  return l.product(Role::q, Role::q_bias, matrices);
}

bool has_positions(const Layer& l) { return l.style().positions == PositionKind::rotary; }
bool turns(const Layer& l) { return has_positions(l) && l.config().rotates(l.number()); }

// Parts of the rotation's kernel: norms over heads, and then the rotation.
struct Steps {
  bool norms = false, turn = false;

  bool any() const { return norms || turn; }
};
// Norms after the rotation are a step of their own.
bool turns_first(const Layer& l) { return turns(l) && l.config().qk_norm() == QkNormKind::rotated_heads; }
// Steps that are not in place, where q and k have norms or gates.
Steps steps_of(const Layer& l) {
  const QkNormKind norms = l.config().qk_norm();
  return {.norms = norms == QkNormKind::heads || norms == QkNormKind::rotated_heads,
          .turn = turns(l) && !turns_first(l)};
}

RotaryValues values_of(const Layer& l, const Steps& steps) {
  if (l.config().reads_keys(l.number())) return RotaryValues::given;
  if (!steps.norms || !l.style().value_norms) return RotaryValues::copied;
  return l.config().keys_are_values(l.number()) ? RotaryValues::normalised_keys : RotaryValues::normalised;
}

RotaryShape rotary_shape(const Layer& l, const Steps& steps) {
  const ModelConfig& c = l.config();
  const u32 size = c.head_size(l.number());
  const Rope rope = c.rope(l.number());
  const bool tiled = l.c.graph.batch.tiled();
  RotaryShape shape = {.rows = rows_of(l.c),
                       .tokens = tiled ? rows_of(l.c) : l.c.graph.batch.tokens,
                       .first_token = l.c.tile.first_token,
                       .heads = c.attention.heads,
                       .kv_heads = c.kv_heads(l.number()),
                       .head_size = size,
                       .rotated_size = c.rotary_size(l.number()),
                       .query_stride = c.attention_gate() ? 2 * size : 0,
                       .neighbours = l.style().neighbours_rotate,
                       .values = values_of(l, steps)};
  if (!steps.turn) return shape;
  shape.factor = static_cast<float>(rope.rotary_factor());
  shape.query_growth = static_cast<float>(rope.query_growth);
  shape.query_period = rope.original_positions != 0 ? rope.original_positions : c.positions;
  return shape;
}

// The beginnings of documents, and holes.
struct Documents {
  const i32* starts;     // [B, T], or null
  const KeyHole* holes;  // [B, T], or null
};

Rotary rotary_of(const Layer& l, const Documents& documents, const Steps& steps, ConstValues qkv,
                 Values out) {
  const ModelConfig& c = l.config();
  return {.shape = rotary_shape(l, steps),
          .qkv = qkv,
          .out = out,
          .starts = documents.starts,
          .holes = documents.holes,
          .inverse_frequencies = steps.turn ? inverse_frequencies(c, l.number(), l.c.graph.batch.tokens)
                                            : RotaryFrequencies{},  // angles of 0
          .q_norm = steps.norms ? l[Role::q_norm] : Param{},
          .k_norm = steps.norms ? l[Role::k_norm] : Param{},
          .norm_offset = l.style().norm_offset ? 1.0f : 0.0f,
          .epsilon = static_cast<float>(c.norm_epsilon)};
}

constexpr Steps turn_alone = {.turn = true};

// out = q and k of `qkv`, normalised if the family does so, and rotated; and v unchanged. `spare`: [R, Q].
void rotate(const Layer& l, const Documents& documents, ConstValues qkv, Values out, Values spare) {
  if (!has_positions(l)) return;
  if (has_whole_norms(l)) whole_norms(l, {.qkv = qkv, .out = out, .spare = spare});
  const Steps steps = steps_of(l);
  if (!steps.any() && (has_whole_norms(l) || l.config().product_is_qkv(l.number()))) return;
  l.c.kernels.rotary(rotary_of(l, documents, steps, has_whole_norms(l) ? out : qkv, out));
}

// dx: may be dqkv.
void steps_gradient(const LayerGradients& s, const Steps& steps, ConstValues qkv, Values dqkv, Values dx) {
  const Rotary forward = rotary_of(s.layer, {s.b.batch.starts, s.b.batch.holes}, steps, qkv, dqkv);
  s.layer.c.kernels.rotary_backward({.shape = forward.shape,
                                     .qkv = steps.norms ? forward.qkv : ConstValues{},
                                     .dqkv = dqkv,
                                     .dx = dx == dqkv ? Values{} : dx,
                                     .starts = forward.starts,
                                     .holes = forward.holes,
                                     .inverse_frequencies = forward.inverse_frequencies,
                                     .q_norm = forward.q_norm,
                                     .k_norm = forward.k_norm,
                                     .norm_offset = forward.norm_offset,
                                     .epsilon = forward.epsilon,
                                     .dq_norm = steps.norms ? s[Role::q_norm] : nullptr,
                                     .dk_norm = steps.norms ? s[Role::k_norm] : nullptr,
                                     .accumulate = s.b.accumulate,
                                     .partials = s.frame.buffers.moments.partials});
}

// dx: may be dqkv.
void rotary_gradient(const LayerGradients& s, const BackwardFrame& frame, ConstValues qkv, Values dqkv,
                     Values dx) {
  const Layer& l = s.layer;
  if (!has_positions(l)) return;
  if (const Steps steps = steps_of(l); steps.any() || dx != dqkv) steps_gradient(s, steps, qkv, dqkv, dx);
  if (turns_first(l)) steps_gradient(s, turn_alone, {}, dx, dx);
  if (has_whole_norms(l))
    whole_norm_gradients(
        s, {.qkv = qkv, .dqkv = dx, .x = frame.rotary, .dx = frame.narrow, .moments = frame.moments});
}

Dropout dropout_of_weights(const Layer& l) {
  return dropout_of(l.c, DropoutSite::attention, l.config().attention.dropout);
}

// Gates of q's heads: each head's follow its q.
GateShape gate_shape(const Layer& l) {
  const u32 size = l.config().head_size(l.number());
  return {.rows = rows_of(l.c),
          .heads = l.config().attention.heads,
          .head_size = size,
          .gate_size = size,
          .row_stride = l.config().qkv_product_width(l.number()),
          .head_stride = 2 * size};
}

// True if q and k are not rotated in place.
bool has_rotary_frame(const Layer& l) {
  return l.config().qk_norm() != QkNormKind::none || !l.config().product_is_qkv(l.number());
}

// Places of forward's values. `rotated` and `qkv` are one array if q and k have no norms and no gates: the
// gradients of those norms need qkv from before the norm. `gated` may be `attention`, and `spare` any array
// that is written after the rotation.
struct Places {
  Values qkv, rotated, attention, gated, spare;
  float* lse = nullptr;  // null: not stored
};
Places places_of(const Layer& l, const MixerForward& m) {
  const AttentionInside in = inside_of(l, m.inside);
  const bool apart = has_rotary_frame(l);
  if (m.frame == Direction::backward) {
    const BackwardFrame frame = backward_frame_of(l, m.workspace);
    return {in.qkv, apart ? frame.rotary : in.qkv, in.attention, frame.wide, frame.narrow, in.lse};
  }
  const ForwardFrame frame = forward_frame_of(l, m.workspace);
  const Values rotated = l.config().product_is_qkv(l.number()) ? frame.wide : frame.rotary;
  if (m.inside == nullptr) return {frame.wide, rotated, frame.narrow, frame.narrow, frame.narrow};
  return {in.qkv, apart ? rotated : in.qkv, in.attention, rotated, frame.narrow, in.lse};
}

// RETURNS: attention's output, which is `gated` if q's heads have gates.
ConstValues gate(const Layer& l, ConstValues qkv, ConstValues attention, Values gated) {
  if (!l.config().attention_gate()) return attention;
  l.c.kernels.sigmoid_gate({.shape = gate_shape(l),
                            .x = attention,
                            .gates = qkv.at(l.config().head_size(l.number())),
                            .y = gated});
  return gated;
}

KeyColumns key_columns(const Layer& l) {
  const u32 layer = l.number();
  return {.begin = l.config().query_width(layer),
          .count = 2 * l.config().key_width(layer),
          .stride = l.config().qkv_width(layer)};
}

// k and v of `qkv`, normalised and rotated, become those of another layer, or go where other layers read
// them.
void share_keys(const Layer& l, ConstValues read, Values write, Values qkv) {
  const KeyColumns columns = key_columns(l);
  const Values keys = qkv.at(columns.begin);
  CopyColumns copy = {.rows = rows_of(l.c), .columns = columns.count};
  if (l.config().reads_keys(l.number())) {
    copy.x = read, copy.x_stride = columns.count;
    copy.y = keys, copy.y_stride = columns.stride;
  } else if (l.config().gives_keys(l.number()) && write) {
    copy.x = keys, copy.x_stride = columns.stride;
    copy.y = write, copy.y_stride = columns.count;
  } else {
    return;
  }
  l.c.kernels.copy_columns(copy);
}

// Adds the gradient of k and v to that of the other readers, the first of which begins it; or, of the layer
// that they read, adds theirs to it.
void share_key_gradients(const LayerGradients& s, Values dqkv) {
  const Layer& l = s.layer;
  const KeyColumns columns = key_columns(l);
  const Values dkeys = dqkv.at(columns.begin), shared = s.b.shared_keys_grad;
  const bool reads = l.config().reads_keys(l.number());
  if (!reads && !l.config().gives_keys(l.number())) return;
  CopyColumns copy = {.rows = rows_of(l.c), .columns = columns.count};
  copy.x = reads ? dkeys : shared, copy.x_stride = reads ? columns.stride : columns.count;
  copy.y = reads ? shared : dkeys, copy.y_stride = reads ? columns.count : columns.stride;
  copy.add = true;
  for (const StreamUse& use : block_of(l.c).backward_streams)
    if (l.c.graph.streams[use.stream].kind == Kind::shared_keys_grad && use.access == Access::write)
      copy.add = false;
  l.c.kernels.copy_columns(copy);
}

// q, k and v; k and v also to the past.
void project(const Layer& l, const MixerForward& m, const Places& to) {
  product(l, qkv_product(l), m.norm, to.qkv);
  if (turns_first(l)) l.c.kernels.rotary(rotary_of(l, {m.starts, m.holes}, turn_alone, to.qkv, to.qkv));
  rotate(l, {m.starts, m.holes}, to.qkv, to.rotated, to.spare);
  share_keys(l, m.read_keys, m.write_keys, to.rotated);
  copy_to_past(l, key_columns(l), to.rotated, m.past);
}

void add_to_past(const Layer& l, const MixerForward& m) { project(l, m, places_of(l, m)); }

void forward(const Layer& l, const MixerForward& m) {
  const Places to = places_of(l, m);
  project(l, m, to);
  l.c.kernels.attention({.shape = tile_shape(l),
                         .tile = tile_of(l, m.past),
                         .qkv = to.rotated,
                         .out = to.attention,
                         .lse = to.lse,
                         .starts = m.starts,
                         .holes = m.holes,
                         .dropout = dropout_of_weights(l),
                         .sinks = l[Role::sinks]});
  add_product(l, l.product(Role::o, Role::o_bias), gate(l, to.qkv, to.attention, to.gated), m.sum);
}

void restore(const LayerGradients& s) {
  if (!has_rotary_frame(s.layer)) return;
  const BackwardFrame frame = backward_frame_of(s.layer, s.b.workspace);
  rotate(s.layer, {s.b.batch.starts, s.b.batch.holes}, inside_of(s.layer, s.inside.mixer).qkv, frame.rotary,
         frame.narrow);
  share_keys(s.layer, s.b.shared_keys, {}, frame.rotary);
}

void restore_past(const LayerGradients& s) {
  restore(s);
  const Layer& l = s.layer;
  const Values qkv =
      has_rotary_frame(l) ? backward_frame_of(l, s.b.workspace).rotary : inside_of(l, s.inside.mixer).qkv;
  copy_to_past(l, key_columns(l), qkv, s.past);
}

// frame.narrow: gradient of attention's output, from the gradient of the mixer's output. With gates, their
// gradient is written to frame.dproduct.
void out_gradient(const LayerGradients& s, const AttentionInside& in, const BackwardFrame& frame,
                  ConstValues dout) {
  const Layer& l = s.layer;
  const Product o = l.product(Role::o, Role::o_bias);
  gradients(s, o, gate(l, in.qkv, in.attention, frame.wide), dout, frame.narrow);
  if (!l.config().attention_gate()) return;
  const u32 size = l.config().head_size(l.number());
  l.c.kernels.sigmoid_gate_backward({.shape = gate_shape(l),
                                     .x = in.attention,
                                     .gates = in.qkv.at(size),
                                     .dy = frame.narrow,
                                     .dx = frame.narrow,
                                     .dgates = frame.dproduct.at(size)});
}

void backward(const LayerGradients& s, ConstValues dout) {
  const Layer& l = s.layer;
  const AttentionInside in = inside_of(l, s.inside.mixer);
  const BackwardFrame frame = backward_frame_of(l, s.b.workspace);
  out_gradient(s, in, frame, dout);
  const Values dqkv = frame.wide;
  l.c.kernels.attention_backward({.shape = tile_shape(l),
                                  .tile = tile_of(l, s.past),
                                  .qkv = has_rotary_frame(l) ? frame.rotary : in.qkv,
                                  .out = in.attention,
                                  .lse = in.lse,
                                  .dout = frame.narrow,
                                  .dqkv = dqkv,
                                  .dpast = past_gradients(s),
                                  .starts = s.b.batch.starts,
                                  .holes = s.b.batch.holes,
                                  .dropout = dropout_of_weights(l),
                                  .scratch = s.frame.scratch,
                                  .sinks = l[Role::sinks],
                                  .dsinks = s[Role::sinks],
                                  .accumulate = s.b.accumulate});
  const Values dproduct = l.config().product_is_qkv(l.number()) ? dqkv : frame.dproduct;
  take_past_gradients(s, key_columns(l), dqkv);
  share_key_gradients(s, dqkv);
  rotary_gradient(s, frame, in.qkv, dqkv, dproduct);
  recompute_input_norm(s);
  const auto [dx, add] = s.mixer_input_gradient();
  gradients(s, qkv_product(l), s.mixer_input(), dproduct, dx, add);
}

}  // namespace

const Mixer row = {.tensors = add_tensors,
                   .attention = shape_of,
                   .inside_always = false,
                   .past_bytes = past_bytes,
                   .inside_bytes = inside_bytes,
                   .forward_frame = take_forward,
                   .backward_frame = take_backward,
                   .add_to_past = add_to_past,
                   .restore_past = restore_past,
                   .forward = forward,
                   .restore = restore,
                   .backward = backward};

}  // namespace tidepool::softmax
