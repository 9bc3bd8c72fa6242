#include "model/mixers/key_past.h"

namespace tidepool {
namespace {

Values keys_of(const Layer& l, std::byte* past) { return {past, l.c.graph.activations}; }

}  // namespace

PastBytes past_of_keys(const ModelGraph& g, u32 columns) {
  const u64 elements = u64{g.batch.tokens} * columns;
  return {.values = elements * value_bytes(g.activations), .gradients = elements * sizeof(float)};
}

AttentionShape tile_shape(const Layer& l) {
  AttentionShape shape = *mixer_row(l.part.mixer).attention(l.c.graph, l.number());
  if (l.c.graph.batch.tiled()) shape.tokens = rows_of(l.c);
  return shape;
}

AttentionTile tile_of(const Layer& l, std::byte* past) {
  if (past == nullptr) return {};
  return {
      .past = keys_of(l, past), .first = l.c.tile.first_token, .tile_tokens = l.c.graph.batch.tile_tokens};
}

void copy_to_past(const Layer& l, const KeyColumns& columns, ConstValues qkv, std::byte* past) {
  if (past == nullptr) return;
  l.c.kernels.copy_columns({.rows = rows_of(l.c),
                            .columns = columns.count,
                            .x = qkv.at(columns.begin),
                            .x_stride = columns.stride,
                            .y = keys_of(l, past).at(u64{l.c.tile.first_token} * columns.count),
                            .y_stride = columns.count});
}

float* past_gradients(const LayerGradients& s) { return reinterpret_cast<float*>(s.past_grad); }

void take_past_gradients(const LayerGradients& s, const KeyColumns& columns, Values dqkv) {
  if (s.past_grad == nullptr) return;
  float* const grad = past_gradients(s) + u64{s.layer.c.tile.first_token} * columns.count;
  s.layer.c.kernels.copy_columns({.rows = rows_of(s.layer.c),
                                  .columns = columns.count,
                                  .x = grad,
                                  .x_stride = columns.count,
                                  .y = dqkv.at(columns.begin),
                                  .y_stride = columns.stride});
}

}  // namespace tidepool
