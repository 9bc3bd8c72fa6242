#include "model/block_layouts.h"

#include <algorithm>

namespace tidepool {
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
  lse = layout.take<float>(attention_shape(g).lse_elements());
  middle = layout.take_values(g.activations, s.rows * s.h);
  pre = layout.take_values(g.activations, mlp_gradient_elements(g));
  bytes = layout.bytes();
}

LayerForwardWorkspace::LayerForwardWorkspace(const ModelGraph& g, std::byte* base) {
  const Shape s = shape_of(g);
  WorkspaceCutter layout(base);
  wide = layout.take_values(g.activations, s.rows * s.wide);
  narrow = layout.take_values(g.activations, s.rows * s.h);
  adapters = adapter_scratch(g, layout);
  bytes = layout.bytes();
}

LayerBackwardWorkspace::LayerBackwardWorkspace(const ModelGraph& g, std::byte* base, Inside from) {
  const Shape s = shape_of(g);
  WorkspaceCutter layout(base);
  wide = layout.take_values(g.activations, s.rows * s.wide);
  norm = layout.take_values(g.activations, s.rows * s.h);
  narrow = layout.take_values(g.activations, s.rows * s.h);
  if (g.config.residual_dropout > 0) dropped = layout.take_values(g.activations, s.rows * s.h);
  mean = layout.take<float>(s.rows);
  rstd = layout.take<float>(s.rows);
  partials = layout.take<float>(layer_norm_partials(s.rows, s.h));
  adapters = adapter_scratch(g, layout);
  if (from == Inside::recomputed) {
    inside = layout.take<std::byte>(LayerInside(g, nullptr).bytes.value);
    dpre = LayerInside(g, inside).pre;
  } else {
    inside = nullptr;
    dpre = layout.take_values(g.activations, mlp_gradient_elements(g));
  }
  bytes = layout.bytes();
}

EmbeddingBackwardWorkspace::EmbeddingBackwardWorkspace(const ModelGraph& g, std::byte* base) {
  WorkspaceCutter layout(base);
  order = layout.take<u64>(g.batch.rows());
  bytes = layout.bytes();
}

HeadWorkspace::HeadWorkspace(const ModelGraph& g, std::byte* base, Direction direction) {
  const Shape s = shape_of(g);
  WorkspaceCutter layout(base);
  norm = layout.take_values(g.activations, s.rows * s.h);
  logits = layout.take_values(
      g.activations, s.rows * logits_stride(g.activations, std::min(g.config.vocab_size, vocabulary_slice)));
  losses = layout.take<RowLoss>(s.rows);
  const u64 backward = direction == Direction::backward ? 1 : 0;
  dnorm = layout.take_values(g.activations, backward * s.rows * s.h);
  const bool layer_norms = style(g.config.family) == LayerStyle::gpt2;
  mean = layout.take<float>(layer_norms ? backward * s.rows : 0);
  rstd = layout.take<float>(backward * s.rows);
  partials = layout.take<float>(
      backward * (layer_norms ? layer_norm_partials(s.rows, s.h) : rms_norm_partials(s.rows, s.h)));
  bytes = layout.bytes();
}

}  // namespace tidepool
