#include "model/attention.h"

#include <algorithm>

#include "model/layer_parts.h"

namespace tidepool {
namespace {

// Calls fn(shape) for each layer that has attention.
template <class Fn>
void for_attention(const ModelGraph& g, Fn fn) {
  for (u32 layer = 0; layer < g.config.layers; ++layer)
    if (const std::optional<AttentionShape> shape = attention_shape(g, layer)) fn(*shape);
}

}  // namespace

std::optional<AttentionShape> attention_shape(const ModelGraph& g, u32 layer) {
  return mixer_row(g.config.mixer_kind(layer)).attention(g, layer);
}

Bytes attention_scratch(const ModelGraph& g) {
  const ModelConfig& c = g.config;
  u64 elements = g.batch.tile_rows() * mlp_row(style(c.family).mlp).widths(c, 0).values;
  // Blocks with a router have no MLP of this width; this much is set aside for their scratch.
  if (c.experts.count != 0) elements = std::min(elements, g.batch.tile_rows() * c.query_width());
  return Bytes{values_bytes(elements, g.activations)};
}

std::string_view why_own_attention(const ModelGraph& g) {
  if (g.batch.tiled()) return "sequences are computed in tiles (train.tile_tokens)";
  if (g.batch.packed) return "a sequence may hold several documents (data.packing)";
  if (g.config.attention.dropout > 0) return "attention weights drop out";
  if (style(g.config.family).attention_sinks) return "heads have attention sinks";
  if (g.config.softmax.soft_cap != 0) return "attention scores have a soft cap";
  std::optional<AttentionShape> first;
  bool sizes = false, windows = false, differ = false;
  for_attention(g, [&](const AttentionShape& shape) {
    if (!first) first = shape;
    sizes |= shape.value_head_size() != shape.head_size;
    windows |= shape.window != 0;
    differ |= shape != *first;
  });
  if (!first) return "no layer has attention";
  if (sizes) return "heads of v and of k differ in size";
  if (windows) return "sequences are longer than the model's sliding window";
  if (differ) return "layers differ in the shape of their attention";
  return {};
}

std::optional<AttentionToCome> attention_to_come(const ModelGraph& g) {
  if (!why_own_attention(g).empty()) return {};
  AttentionToCome out = {
      .precision = g.activations, .scratch = attention_scratch(g), .has_backward = trains(g)};
  for_attention(g, [&](const AttentionShape& shape) { out.shape = shape; });  // all are alike
  return out;
}

}  // namespace tidepool
