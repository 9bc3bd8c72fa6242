// Calls of a block's code tile by tile (BatchShape::tile_tokens), for the tiles of a piece. A block's code
// gets the same arguments for a tile, with arrays that begin with the tile's first row.
#pragma once

#include "base/check.h"
#include "model/block_calls.h"
#include "model/mlps/experts/expert_layouts.h"

namespace tidepool {

inline BlockContext with_tile(const BlockContext& c, const RowTile& tile) {
  CHECK(tile.number < row_tiles_max, tile.number);
  BlockContext out = c;
  out.tile = tile;
  return out;
}

// Rows from the first of the piece.
inline u64 row_in_piece(const BlockContext& tile) {
  return tile.tile.first_row - tile.graph.batch.piece(tile.piece).first_row;
}

inline u32 tile_in_piece(const BlockContext& tile) {
  return tile.tile.number - tile.graph.batch.piece(tile.piece).first_tile;
}

// A piece keeps the insides of its tiles side by side.
inline u64 kept_place(const BlockContext& tile) {
  const BatchShape& batch = tile.graph.batch;
  return tile_in_piece(tile) * (block_of(tile).kept.value / batch.tiles_of_piece());
}

// Two branches of a tile lie one behind the other, and so do the arrays of its routes.
inline ExpertStreams part_of(const BlockContext& tile, ExpertStreams s) {
  const ModelGraph& g = tile.graph;
  if (g.config.experts.count == 0) return s;
  const u64 row = row_in_piece(tile), elements = row * g.config.width;
  s.post_attention = s.post_attention.at(elements), s.normed = s.normed.at(elements);
  s.branches = s.branches.at(2 * elements), s.branches_grad = s.branches_grad.at(2 * elements);
  if (s.routes != nullptr) s.routes += tile_in_piece(tile) * RoutesLayout(g, nullptr).bytes.value;
  if (s.sum != nullptr) s.sum += elements;
  if (s.normed_grad != nullptr) s.normed_grad += elements;
  if (s.routes_grad != nullptr) s.routes_grad += row * g.config.experts.chosen;
  return s;
}

// Elements of a piece's rows before the tile: of inputs of layers, and of shared keys.
inline u64 layer_inputs_before(const BlockContext& tile) {
  return row_in_piece(tile) * tile.graph.config.layer_inputs_width();
}
inline u64 shared_keys_before(const BlockContext& tile) {
  const ModelConfig& config = tile.graph.config;
  const u32 layer = block_of(tile).layer;
  return layer < config.layers ? row_in_piece(tile) * 2 * config.key_width(layer) : 0;
}

inline BlockForward part_of(const BlockContext& tile, BlockForward f) {
  const u64 row = tile.tile.first_row, elements = row_in_piece(tile) * tile.graph.config.width;
  if (f.kept != nullptr) f.kept += kept_place(tile);
  f.batch = f.batch.from_row(row, tile.graph.batch.distribution_numbers);
  f.input = f.input.at(elements);
  f.output = f.output.at(elements);
  f.layer_inputs = f.layer_inputs.at(layer_inputs_before(tile));
  f.shared_keys = f.shared_keys.at(shared_keys_before(tile));
  f.experts = part_of(tile, f.experts);
  if (f.head.outputs != nullptr) f.head.outputs += row * tile.graph.objective.outputs();
  return f;
}

// `first`: no tile before it has added to the accumulators.
inline BlockBackward part_of(const BlockContext& tile, BlockBackward b, bool first) {
  const u64 row = tile.tile.first_row, elements = row_in_piece(tile) * tile.graph.config.width;
  if (b.kept != nullptr) b.kept += kept_place(tile);
  b.batch = b.batch.from_row(row, tile.graph.batch.distribution_numbers);
  b.input = b.input.at(elements);
  b.grad = b.grad.at(elements);
  b.layer_inputs = b.layer_inputs.at(layer_inputs_before(tile));
  b.layer_inputs_grad = b.layer_inputs_grad.at(layer_inputs_before(tile));
  b.shared_keys = b.shared_keys.at(shared_keys_before(tile));
  b.shared_keys_grad = b.shared_keys_grad.at(shared_keys_before(tile));
  b.experts = part_of(tile, b.experts);
  b.accumulate |= !first;
  return b;
}

// Calls fn(tile, first) for the tiles of a piece from the last to the first. `first`: of these calls.
template <class Fn>
void from_last_tile(const BlockContext& c, Fn fn) {
  const BatchShape& batch = c.graph.batch;
  const RowPiece piece = batch.piece(c.piece);
  for (u32 t = piece.end_tile; t-- > piece.first_tile;)
    fn(with_tile(c, batch.tile(t)), t + 1 == piece.end_tile);
}

// Calls fn(context, arguments) for all tiles: forward in order, backward from the last to the first, which is
// the order in which their gradients are added. A micro-batch that is not cut is one call.
template <class Fn>
void for_tiles(const BlockContext& c, const BlockForward& f, Fn fn) {
  const BatchShape& batch = c.graph.batch;
  if (!batch.tiled()) return fn(c, f);
  const RowPiece piece = batch.piece(c.piece);
  for (u32 t = piece.first_tile; t < piece.end_tile; ++t) {
    const BlockContext tile = with_tile(c, batch.tile(t));
    fn(tile, part_of(tile, f));
  }
}
// In the order of backward, which is that of the head's pieces also in an evaluation.
template <class Fn>
void for_tiles_from_last(const BlockContext& c, const BlockForward& f, Fn fn) {
  if (!c.graph.batch.tiled()) return fn(c, f);
  from_last_tile(c, [&](const BlockContext& tile, bool) { fn(tile, part_of(tile, f)); });
}
template <class Fn>
void for_tiles(const BlockContext& c, const BlockBackward& b, Fn fn) {
  if (!c.graph.batch.tiled()) return fn(c, b);
  from_last_tile(c, [&](const BlockContext& tile, bool first) { fn(tile, part_of(tile, b, first)); });
}

}  // namespace tidepool
