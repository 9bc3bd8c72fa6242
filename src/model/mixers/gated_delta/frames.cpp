#include "model/mixers/gated_delta/frames.h"

#include <algorithm>

namespace tidepool::gated_delta {
namespace {

Values take(const ModelGraph& g, WorkspaceCutter& layout, u32 columns) {
  return layout.take_values(g.activations, g.batch.tile_rows() * columns);
}
// RETURNS: the tile's rows, which begin as all arrays do; the rows before a tile lie before them. `most`:
// columns of other contents, or the same.
Values take_behind_rows(const ModelGraph& g, WorkspaceCutter& layout, u32 columns, u32 most) {
  layout.take_values(g.activations, u64{rows_before(g)} * columns);
  return take(g, layout, most);
}

// Also of the rows before a tile.
u64 partials_of(const ModelGraph& g) {
  DeltaShape shape = delta_shape(g);
  shape.tokens += rows_before(g);
  return delta_partials(shape);
}

}  // namespace

DeltaShape delta_shape(const ModelConfig& c) {
  if (!traits(c.family).layer_kinds.empty())
    return {.key_heads = c.mamba.groups,
            .value_heads = c.mamba.heads,
            .key_size = c.mamba.state_size,
            .value_size = c.mamba.head_dim,
            .taps = c.mamba.taps,
            .rule = StateRule::mamba};
  return {.key_heads = c.delta.key_heads,
          .value_heads = c.delta.value_heads,
          .key_size = c.delta.key_head_dim,
          .value_size = c.delta.value_head_dim,
          .taps = c.delta.taps,
          .by_key_head = traits(c.family).delta_by_key_head};
}

DeltaShape delta_shape(const ModelGraph& g) {
  DeltaShape shape = delta_shape(g.config);
  const BatchShape& batch = g.batch;
  shape.sequences = batch.tiled() ? 1 : batch.sequences;
  shape.tokens = batch.tiled() ? batch.tile_tokens : batch.tokens;
  return shape;
}

u32 rows_before(const ModelGraph& g) { return g.batch.tiled() ? delta_shape(g.config).taps - 1 : 0; }

DeltaInside::DeltaInside(const ModelGraph& g, WorkspaceCutter& layout)
    : projected(take_behind_rows(g, layout, delta_shape(g).columns(), delta_shape(g).columns())),
      out(take(g, layout, delta_shape(g).value_columns())) {}

ForwardFrame::ForwardFrame(const ModelGraph& g, u32 layer, WorkspaceCutter& layout)
    : norm(take(g, layout, g.config.width)),
      wide(take_behind_rows(g, layout, delta_shape(g).channels(),
                            std::max(delta_shape(g).channels(), mlp_widths(g, layer).inner))) {}

BackwardFrame::BackwardFrame(const ModelGraph& g, u32 layer, WorkspaceCutter& layout)
    : norm(take(g, layout, g.config.width)),
      narrow(take(g, layout,
                  std::max({g.config.width, delta_shape(g).value_columns(), mlp_widths(g, layer).spare}))),
      wide(take_behind_rows(g, layout, delta_shape(g).columns(),
                            std::max(delta_shape(g).columns(), mlp_widths(g, layer).inner))),
      qkv(take_behind_rows(g, layout, delta_shape(g).channels(), delta_shape(g).channels())),
      dqkv(take_behind_rows(g, layout, delta_shape(g).channels(), delta_shape(g).channels())),
      dropped(take_dropped(g, layout)),
      moments(norm_scratch(g, layout, partials_of(g))),
      states(layout.take<float>(delta_states(delta_shape(g)))) {}

std::optional<AttentionShape> no_attention(const ModelGraph&, u32) { return std::nullopt; }

u64 inside_bytes(const ModelGraph& g, u32) {
  WorkspaceCutter layout(nullptr);
  DeltaInside(g, layout);
  return layout.used();
}

ForwardBuffers take_forward(const ModelGraph& g, u32 layer, MlpWidths, WorkspaceCutter& layout) {
  const ForwardFrame f(g, layer, layout);
  return {.norm = f.norm, .inner = f.wide};
}

BackwardBuffers take_backward(const ModelGraph& g, u32 layer, MlpWidths, WorkspaceCutter& layout) {
  const BackwardFrame f(g, layer, layout);
  return {.norm = f.norm, .narrow = f.narrow, .inner = f.wide, .dropped = f.dropped, .moments = f.moments};
}

void restore(const LayerGradients&) {}

DeltaInside inside_of(const Layer& l, std::byte* base) {
  WorkspaceCutter layout(base);
  return {l.c.graph, layout};
}

Values wide_of(const Layer& l, const MixerForward& m) {
  WorkspaceCutter layout(m.workspace);
  return m.frame == Direction::forward ? ForwardFrame(l.c.graph, l.number(), layout).wide
                                       : BackwardFrame(l.c.graph, l.number(), layout).qkv;
}

}  // namespace tidepool::gated_delta
