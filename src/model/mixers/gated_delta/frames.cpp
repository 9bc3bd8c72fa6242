#include "model/mixers/gated_delta/frames.h"

#include <algorithm>

namespace tidepool::gated_delta {
namespace {

Values take(const ModelGraph& g, WorkspaceCutter& layout, u32 columns) {
  return layout.take_values(g.activations, g.batch.rows() * columns);
}

}  // namespace

DeltaShape delta_shape(const ModelConfig& c) {
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
      moments(norm_scratch(g, layout, delta_partials(delta_shape(g)))),
      states(layout.take<float>(delta_states(delta_shape(g)))) {}

}  // namespace tidepool::gated_delta
