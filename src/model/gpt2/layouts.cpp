#include "model/gpt2/layouts.h"

#include <algorithm>

namespace tidepool::gpt2 {
namespace {

struct Shape {
  u64 rows, h, inner, wide;
};

Shape shape_of(const ModelGraph& g) {
  const u64 h = g.config.width, inner = g.config.inner();
  return {.rows = g.batch.rows(), .h = h, .inner = inner, .wide = std::max(3 * h, inner)};
}

}  // namespace

LayerInside::LayerInside(const ModelGraph& g, std::byte* base) {
  const Shape s = shape_of(g);
  WorkspaceCutter layout(base);
  qkv = layout.take_values(g.activations, s.rows * 3 * s.h);
  attention = layout.take_values(g.activations, s.rows * s.h);
  lse = layout.take<float>(attention_shape(g, 0).lse_elements());
  middle = layout.take_values(g.activations, s.rows * s.h);
  pre = layout.take_values(g.activations, mlp_gradient_elements(g));
  bytes = layout.bytes();
}

ForwardWorkspace::ForwardWorkspace(const ModelGraph& g, std::byte* base) {
  const Shape s = shape_of(g);
  WorkspaceCutter layout(base);
  wide = layout.take_values(g.activations, s.rows * s.wide);
  narrow = layout.take_values(g.activations, s.rows * s.h);
  adapters = adapter_scratch(g, layout);
  bytes = layout.bytes();
}

BackwardWorkspace::BackwardWorkspace(const ModelGraph& g, std::byte* base, Inside from) {
  const Shape s = shape_of(g);
  WorkspaceCutter layout(base);
  wide = layout.take_values(g.activations, s.rows * s.wide);
  norm = layout.take_values(g.activations, s.rows * s.h);
  narrow = layout.take_values(g.activations, s.rows * s.h);
  if (g.config.residual_dropout > 0) dropped = layout.take_values(g.activations, s.rows * s.h);
  moments = norm_scratch(g, layout);
  adapters = adapter_scratch(g, layout);
  const InsideAndGradient tail = take_inside(g, layout, from, &LayerInside::pre);
  inside = tail.inside;
  dpre = tail.gradient;
  bytes = layout.bytes();
}

}  // namespace tidepool::gpt2
