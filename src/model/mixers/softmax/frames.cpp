#include "model/mixers/softmax/frames.h"

#include <algorithm>

#include "model/mixers/softmax/whole_norms.h"

namespace tidepool::softmax {
namespace {

u64 head_norm_partials(const ModelGraph& g, u32 layer) {
  switch (g.config.qk_norm()) {
    case QkNormKind::none:
      return 0;
    case QkNormKind::heads:
    case QkNormKind::rotated_heads:
      return rotary_partials(g.batch.tile_rows(), g.config.head_size(layer));
    case QkNormKind::whole:
      return whole_norm_partials(g);
  }
  return 0;
}

}  // namespace

AttentionInside::AttentionInside(const ModelGraph& g, u32 layer, WorkspaceCutter& layout) {
  const u64 rows = g.batch.tile_rows();
  qkv = layout.take_values(g.activations, rows * g.config.qkv_product_width(layer));
  attention = layout.take_values(g.activations, rows * g.config.query_width(layer));
  lse = layout.take<float>(attention_shape(g, layer)->lse_elements());
}

ForwardFrame::ForwardFrame(const ModelGraph& g, u32 layer, WorkspaceCutter& layout) {
  const ModelConfig& c = g.config;
  const MlpWidths mlp = mlp_widths(g, layer);
  const u64 rows = g.batch.tile_rows();
  wide = layout.take_values(g.activations,
                            rows * std::max(c.qkv_product_width(layer), mlp.apart ? mlp.values : mlp.inner));
  narrow = layout.take_values(g.activations, rows * std::max(c.width, c.query_width(layer)));
  inner = mlp.apart ? layout.take_values(g.activations, rows * mlp.inner) : wide;
  if (!c.product_is_qkv(layer)) rotary = layout.take_values(g.activations, rows * c.qkv_width(layer));
}

BackwardFrame::BackwardFrame(const ModelGraph& g, u32 layer, WorkspaceCutter& layout) {
  const ModelConfig& c = g.config;
  const MlpWidths mlp = mlp_widths(g, layer);
  const u64 rows = g.batch.tile_rows();
  wide = layout.take_values(g.activations, rows * std::max(mlp.inner, c.qkv_width(layer)));
  norm = layout.take_values(g.activations, rows * c.width);
  narrow = layout.take_values(g.activations, rows * std::max({c.width, c.query_width(layer), mlp.spare}));
  dropped = take_dropped(g, layout);
  if (!c.product_is_qkv(layer))
    dproduct = layout.take_values(g.activations, rows * c.qkv_product_width(layer));
  if (c.qk_norm() != QkNormKind::none || !c.product_is_qkv(layer))
    rotary = layout.take_values(g.activations, rows * c.qkv_width(layer));
  moments = norm_scratch(g, layout, head_norm_partials(g, layer));
}

}  // namespace tidepool::softmax
