#include "model/mixers/gated_delta/frames.h"

#include <algorithm>

namespace tidepool::gated_delta {
namespace {

Values take(const ModelGraph& g, WorkspaceCutter& layout, u32 columns) {
  return layout.take_values(g.activations, g.batch.rows() * columns);
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
  shape.sequences = g.batch.sequences, shape.tokens = g.batch.tokens;
  return shape;
}

DeltaInside::DeltaInside(const ModelGraph& g, WorkspaceCutter& layout)
    : projected(take(g, layout, delta_shape(g).columns())),
      out(take(g, layout, delta_shape(g).value_columns())) {}

ForwardFrame::ForwardFrame(const ModelGraph& g, u32 layer, WorkspaceCutter& layout)
    : norm(take(g, layout, g.config.width)),
      wide(take(g, layout, std::max(delta_shape(g).channels(), mlp_widths(g, layer).inner))) {}

BackwardFrame::BackwardFrame(const ModelGraph& g, u32 layer, WorkspaceCutter& layout)
    : norm(take(g, layout, g.config.width)),
      narrow(take(g, layout,
                  std::max({g.config.width, delta_shape(g).value_columns(), mlp_widths(g, layer).spare}))),
      wide(take(g, layout, std::max(delta_shape(g).columns(), mlp_widths(g, layer).inner))),
      qkv(take(g, layout, delta_shape(g).channels())),
      dqkv(take(g, layout, delta_shape(g).channels())),
      dropped(take_dropped(g, layout)),
      moments(norm_scratch(g, layout, delta_partials(delta_shape(g)))),
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
