#include "model/mixers/softmax/frames.h"

#include <algorithm>

namespace tidepool::softmax {

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
  if (style(c.family).residual_dropout && c.residual_dropout > 0)
    dropped = layout.take_values(g.activations, rows * c.width);
  if (c.attention_gate()) dproduct = layout.take_values(g.activations, rows * c.qkv_product_width());
  if (c.qk_norm() || c.attention_gate()) rotary = layout.take_values(g.activations, rows * c.qkv_width());
  moments = norm_scratch(g, layout, c.qk_norm() ? rotary_partials(rows, c.head_size()) : 0);
}

}  // namespace tidepool::softmax
