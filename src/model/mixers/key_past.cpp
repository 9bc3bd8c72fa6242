#include "model/mixers/key_past.h"

namespace tidepool {

AttentionShape tile_shape(const Layer& l) {
  AttentionShape shape = *mixer_row(l.part.mixer).attention(l.c.graph, l.number());
  if (l.c.graph.batch.tiled()) shape.tokens = rows_of(l.c);
  return shape;
}

AttentionTile tile_of(const Layer& l, ConstValues past) {
  if (!past) return {};
  return {.past = past, .first = l.c.tile.first_token, .tile_tokens = l.c.graph.batch.tile_tokens};
}

void copy_to_past(const Layer& l, const KeyColumns& columns, ConstValues qkv, Values past) {
  if (!past) return;
  l.c.kernels.copy_columns({.rows = rows_of(l.c),
                            .columns = columns.count,
                            .x = qkv.at(columns.begin),
                            .x_stride = columns.stride,
                            .y = past.at(u64{l.c.tile.first_token} * columns.count),
                            .y_stride = columns.count});
}

void take_past_gradients(const LayerGradients& s, const KeyColumns& columns, Values dqkv) {
  if (s.past_grad == nullptr) return;
  float* const grad = s.past_grad + u64{s.layer.c.tile.first_token} * columns.count;
  s.layer.c.kernels.copy_columns({.rows = rows_of(s.layer.c),
                                  .columns = columns.count,
                                  .x = grad,
                                  .x_stride = columns.count,
                                  .y = dqkv.at(columns.begin),
                                  .y_stride = columns.stride});
}

}  // namespace tidepool
