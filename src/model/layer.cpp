#include "model/layer.h"

#include "base/check.h"
#include "model/layer_parts.h"
#include "model/mlps/layer_inputs/layer_inputs.h"
#include "model/row_tiles.h"

namespace tidepool {
namespace {

const Mixer& mixer_of(const Layer& l) { return mixer_row(l.part.mixer); }
const Mlp& mlp_of(const Layer& l) { return mlp_row(l.part.mlp); }
bool is_routed(const Layer& l) { return block_of(l.c).kind == BlockKind::attention; }
// True if experts and router read what the MLP reads.
bool reads_normed(const Layer& l) { return is_routed(l) && l.part.ends; }

ResidualSum attention_sum(ConstValues x, const Branch& branch, Values y) {
  return {.residual = x,
          .branch = branch,
          .y = y,
          .site = DropoutSite::after_attention,
          .norm = NormRole::attention_branch};
}
// If the layer has an end, the MLP's output is one of its branches, and not added here.
ResidualSum mlp_sum(const Layer& l, ConstValues post_attention, const Branch& branch, Values y) {
  return {.residual = l.part.ends ? post_attention : ConstValues{},
          .branch = branch,
          .y = y,
          .site = DropoutSite::after_mlp,
          .norm = NormRole::mlp_branch};
}
bool adds_inputs(const Layer& l) { return l.part.ends && l.config().layer_inputs.on(); }

Branch kept_or(const Branch& kept, Values other) { return kept.value ? kept : Branch{.value = other}; }
Values kept_or(Values kept, Values other) { return kept ? kept : other; }

// The mixer of a routed layer writes the residual stream to the stream of the experts, and a kept inside has
// a copy, unless it always writes an inside: then the layer's MLP writes that stream.
struct PostAttention {
  Values place;
  bool copied;  // to the inside
};
PostAttention post_attention_of(const Layer& l, const LayerInside& inside, Values out) {
  if (!l.has_mixer()) return {.place = out, .copied = false};
  const bool streamed = is_routed(l) && !mixer_of(l).inside_always;
  if (streamed) return {.place = out, .copied = bool(inside.post_attention)};
  return {.place = kept_or(inside.post_attention, out), .copied = false};
}

// Multiplies the layer's output, or its gradient.
void scale_output(const Layer& l, Values x) {
  if (const Param factor = l[LayerRole::output_scale])
    l.c.kernels.scale_values({.elements = u64{rows_of(l.c)} * l.config().width, .factor = factor, .x = x});
}

// Bytes of the insides of a piece's tiles.
Bytes kept_of(const ModelGraph& g, u32 layer, LayerPart part) {
  return LayerInside(g, layer, part, nullptr).bytes * g.batch.tiles_of_piece();
}

}  // namespace

void measure_layer(Block& block, const ModelGraph& g) {
  const LayerPart part = part_of(g, block);
  block.kept = kept_of(g, block.layer, part);
  const LayerPast past(g, block.layer, part, nullptr);
  block.past = past.bytes, block.past_grad = past.grad_bytes;
  block.forward_workspace = LayerForwardFrame(g, block.layer, part, nullptr).bytes;
  block.backward_workspace = LayerBackwardFrame(g, block.layer, part, nullptr, Inside::recomputed).bytes;
}

namespace {

void layer_tile_forward(const BlockContext& c, const BlockForward& f) {
  CHECK(f.output.data == nullptr || f.output.data != f.input.data, c.block);
  const u32 number = block_of(c).layer;
  const LayerPart part = part_of(c.graph, block_of(c));
  const LayerForwardFrame frame(c.graph, number, part, f.workspace);
  const LayerInside inside(c.graph, number, part, f.kept != nullptr ? f.kept : frame.inside);
  CHECK(frame.bytes == forward_workspace_of(c), c.block);
  CHECK(kept_of(c.graph, number, part) == block_of(c).kept, c.block);
  const Layer l(c, f.windows, frame.adapters);
  const ForwardBuffers& buffers = frame.buffers;
  const Values out = is_routed(l) ? f.experts.post_attention : f.output;
  const auto [post_attention, copied] = post_attention_of(l, inside, out);

  if (l.has_mixer()) {
    const ConstValues mixer_input = input_norm_of(l, NormRole::input, f.input, buffers.norm);
    mixer_of(l).forward(l,
                        {.norm = mixer_input,
                         .starts = f.batch.starts,
                         .holes = f.batch.holes,
                         .inside = inside.mixer,
                         .workspace = f.workspace,
                         .frame = Direction::forward,
                         .read_keys = f.shared_keys,
                         .write_keys = f.shared_keys,
                         .sum = attention_sum(f.input, kept_or(inside.attention_branch, out), post_attention),
                         .past = LayerPast(c.graph, number, part, f.past).values_of(c.tile.sequence)});
    if (copied)
      c.kernels.dropout({}, post_attention, inside.post_attention, u64{rows_of(c)} * l.config().width);
  }
  if (!l.has_mlp()) return;
  const ConstValues before = l.has_mixer() ? ConstValues(post_attention) : f.input;
  const ConstValues norm =
      input_norm_of(l, NormRole::mlp, before, reads_normed(l) ? f.experts.normed : buffers.norm);
  const Values sum = part.ends ? kept_or(inside.before_inputs, out) : f.experts.branches;
  mlp_of(l).forward(l, {.x = before,
                        .norm = norm,
                        .values = kept_or(inside.values, buffers.values),
                        .inner = buffers.inner,
                        .sum = mlp_sum(l, before, kept_or(inside.mlp_branch, buffers.norm), sum),
                        .f = &f,
                        .router = frame.router,
                        .branches = f.experts.branches});
  if (!part.ends) return;
  if (adds_inputs(l))
    layer_inputs::add_to_stream(l, {.inputs = f.layer_inputs,
                                    .residual = kept_or(inside.before_inputs, out),
                                    .values = kept_or(inside.input_values, frame.inputs.values),
                                    .branch = kept_or(inside.inputs_branch, buffers.norm),
                                    .scratch = frame.inputs,
                                    .y = out});
  scale_output(l, out);
}

MixerForward recomputed_mixer(const LayerGradients& s) {
  const LayerInside& in = s.inside;
  return {.norm = input_norm_of(s.layer, NormRole::input, s.b.input, s.frame.buffers.norm),
          .starts = s.b.batch.starts,
          .holes = s.b.batch.holes,
          .inside = in.mixer,
          .workspace = s.b.workspace,
          .frame = Direction::backward,
          .read_keys = s.b.shared_keys,
          .sum = attention_sum(s.b.input, in.attention_branch, in.post_attention),
          .past = s.past};
}

// Recomputes what is never kept: outputs of norms, their moments, and what the mixer's backward needs besides
// the inside. If the inside was not kept, recomputes the inside too.
void recompute(const LayerGradients& s) {
  const Layer& l = s.layer;
  const LayerInside& in = s.inside;
  const BackwardBuffers& buffers = s.frame.buffers;
  const bool kept = s.b.kept != nullptr;
  if (l.has_mixer()) kept ? mixer_of(l).restore(s) : mixer_of(l).forward(l, recomputed_mixer(s));
  if (!l.has_mlp()) return;
  const ConstValues mlp_input =
      input_norm_of(l, NormRole::mlp, s.before_mlp(), buffers.norm, &buffers.moments);
  if (kept) return;
  if (!l.style().branch_norms) return mlp_of(l).recompute(l, mlp_input, in.values);
  // The backward of the MLP's branch norm needs the branch. The layer's output is computed too, and not used.
  mlp_of(l).forward(
      l, {.x = s.before_mlp(),
          .norm = mlp_input,
          .values = in.values,
          .inner = buffers.inner,
          .sum = mlp_sum(l, s.before_mlp(), in.mlp_branch, kept_or(in.before_inputs, buffers.narrow)),
          .branches = s.b.experts.branches});
  if (adds_inputs(l))
    layer_inputs::add_to_stream(l, {.inputs = s.b.layer_inputs,
                                    .residual = in.before_inputs,
                                    .values = in.input_values,
                                    .branch = in.inputs_branch,
                                    .scratch = s.frame.inputs,
                                    .y = buffers.narrow});
}

// The norm goes back once, from the sum by way of experts, shared experts and router: a micro-batch adds to
// the gradient of the norm's weight once.
void mlp_gradients(const LayerGradients& s) {
  const Layer& l = s.layer;
  const bool routed = reads_normed(l), norms = l.tensors.find(NormRole::mlp) != none;
  const Values dnorm = routed ? Values(s.b.experts.normed_grad) : norms ? s.frame.buffers.narrow : s.b.grad;
  ResidualSum sum = mlp_sum(l, {}, s.inside.mlp_branch, {});
  if (!l.part.ends) sum.dy = s.b.experts.branches_grad;
  const bool branches = l.part.mlp == MlpKind::branches;
  const ConstValues dout =
      sum_gradient(s, sum, branches ? s.b.experts.branches_grad : s.frame.buffers.narrow);
  mlp_of(l).backward(s, {.dout = dout, .dnorm = dnorm, .add = routed || !norms});
  if (norms) norm_gradient(s, NormRole::mlp, s.before_mlp(), dnorm);
}

void mixer_gradients(const LayerGradients& s) {
  const ConstValues dout =
      sum_gradient(s, attention_sum({}, s.inside.attention_branch, {}), s.frame.buffers.norm);
  mixer_of(s.layer).backward(s, dout);
  if (s.layer.style().input_norms) norm_gradient(s, NormRole::input, s.b.input, s.frame.buffers.narrow);
}

// Calls fn(state of the layer's backward).
template <class Fn>
void with_gradients(const BlockContext& c, const BlockBackward& b, Fn fn) {
  const u32 number = block_of(c).layer;
  const bool kept = b.kept != nullptr;
  const LayerPart part = part_of(c.graph, block_of(c));
  const LayerBackwardFrame frame(c.graph, number, part, b.workspace,
                                 kept ? Inside::kept : Inside::recomputed);
  CHECK(frame.bytes <= block_of(c).backward_workspace, frame.bytes.value, c.block);
  // A kept inside is read-only: backward overwrites values of the inside only if it has recomputed them.
  const LayerInside inside(c.graph, number, part, kept ? const_cast<std::byte*>(b.kept) : frame.inside);
  const Layer layer(c, b.windows, frame.adapters);
  const LayerPast past(c.graph, number, part, b.past);
  fn({.layer = layer,
      .b = b,
      .window = gradients_of(c, b, 0),
      .adapters = adapter_gradients_of(c, b),
      .frame = frame,
      .inside = inside,
      .past = past.values_of(c.tile.sequence),
      .past_grad = past.grad_of(c.tile.sequence)});
}

void layer_tile_backward(const LayerGradients& s) {
  const Layer& l = s.layer;
  recompute(s);
  if (l.part.ends) scale_output(l, s.b.grad);
  if (float* unused = s[LayerRole::output_scale]; unused != nullptr && !s.b.accumulate)
    l.c.kernels.zero(unused, 1);
  if (adds_inputs(l)) layer_inputs::gradients_of_sum(s);
  if (l.has_mlp()) mlp_gradients(s);
  if (l.has_mixer()) mixer_gradients(s);
}

}  // namespace

void layer_forward(const BlockContext& c, const BlockForward& f) { for_tiles(c, f, layer_tile_forward); }

void layer_backward(const BlockContext& c, const BlockBackward& b) {
  for_tiles(c, b, [](const BlockContext& tile, const BlockBackward& part) {
    with_gradients(tile, part, layer_tile_backward);
  });
}

// The first piece of a micro-batch clears the gradients of all.
void layer_recall(const BlockContext& c, const BlockBackward& b) {
  const LayerPast past(c.graph, block_of(c).layer, part_of(c.graph, block_of(c)), b.past);
  if (c.piece == 0)
    c.kernels.zero(reinterpret_cast<float*>(past.grad),
                   c.graph.batch.sequences * past.grad_of_sequence / sizeof(float));
  const RowPiece piece = c.graph.batch.piece(c.piece);
  for (u32 t = piece.first_tile; t < piece.end_tile; ++t) {
    const BlockContext tile = with_tile(c, c.graph.batch.tile(t));
    with_gradients(tile, part_of(tile, b, false), [](const LayerGradients& s) {
      const Mixer& mixer = mixer_of(s.layer);
      s.b.kept != nullptr ? mixer.restore_past(s) : mixer.add_to_past(s.layer, recomputed_mixer(s));
    });
  }
}

void layer_end_forward(const BlockContext& c, BlockForward f) {
  f.input = f.experts.post_attention;
  layer_forward(c, f);
}

void layer_end_backward(const BlockContext& c, BlockBackward b) {
  b.input = b.experts.post_attention;
  layer_backward(c, b);
}

}  // namespace tidepool
