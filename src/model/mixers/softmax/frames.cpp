#include "model/mixers/softmax/frames.h"

#include <algorithm>

#include "model/mixers/softmax/whole_norms.h"

namespace tidepool::softmax {
namespace {

u64 head_norm_partials(const ModelGraph& g) {
  switch (g.config.qk_norm()) {
    case QkNormKind::none:
      return 0;
    case QkNormKind::heads:
    case QkNormKind::rotated_heads:
      return rotary_partials(g.batch.rows(), g.config.head_size());
    case QkNormKind::whole:
      return whole_norm_partials(g);
  }
  return 0;
}

}  // namespace

AttentionInside::AttentionInside(const ModelGraph& g, u32 layer, WorkspaceCutter& layout) {
  const u64 rows = g.batch.rows();
  qkv = layout.take_values(g.activations, rows * g.config.qkv_product_width());
  attention = layout.take_values(g.activations, rows * g.config.query_width());
  lse = layout.take<float>(attention_shape(g, layer)->lse_elements());
}

ForwardFrame::ForwardFrame(const ModelGraph& g, u32 layer, WorkspaceCutter& layout) {
  const ModelConfig& c = g.config;
  const MlpWidths mlp = mlp_widths(g, layer);
  const u64 rows = g.batch.rows();
  wide = layout.take_values(g.activations,
                            rows * std::max(c.qkv_product_width(), mlp.apart ? mlp.values : mlp.inner));
  narrow = layout.take_values(g.activations, rows * std::max(c.width, c.query_width()));
  inner = mlp.apart ? layout.take_values(g.activations, rows * mlp.inner) : wide;
  if (c.attention_gate()) rotary = layout.take_values(g.activations, rows * c.qkv_width());
}

BackwardFrame::BackwardFrame(const ModelGraph& g, u32 layer, WorkspaceCutter& layout) {
  const ModelConfig& c = g.config;
  const MlpWidths mlp = mlp_widths(g, layer);
  const u64 rows = g.batch.rows();
  wide = layout.take_values(g.activations, rows * std::max(mlp.inner, c.qkv_width()));
  norm = layout.take_values(g.activations, rows * c.width);
  narrow = layout.take_values(g.activations, rows * std::max({c.width, c.query_width(), mlp.spare}));
  if ((style(c.family).residual_dropout && c.residual_dropout > 0) || c.factors.residual != 1)
    dropped = layout.take_values(g.activations, rows * c.width);
  if (c.attention_gate()) dproduct = layout.take_values(g.activations, rows * c.qkv_product_width());
  if (c.qk_norm() != QkNormKind::none || c.attention_gate())
    rotary = layout.take_values(g.activations, rows * c.qkv_width());
  moments = norm_scratch(g, layout, head_norm_partials(g));
}

}  // namespace tidepool::softmax
