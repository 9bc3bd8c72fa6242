#include "model/mixers/gated_delta/state_past.h"

namespace tidepool::gated_delta {
namespace {

Border take_border(const ModelGraph& g, WorkspaceCutter& layout) {
  const DeltaShape s = delta_shape(g);
  Border border;
  border.state = layout.take<float>(u64{s.value_heads} * s.key_size * s.value_size);
  border.rows = layout.take_values(g.activations, u64{rows_before(g)} * s.columns());
  return border;
}

u64 bytes_of_border(const ModelGraph& g) {
  WorkspaceCutter layout(nullptr);
  take_border(g, layout);
  return layout.used();
}

Border border_at(const Layer& l, std::byte* base, u32 number) {
  WorkspaceCutter layout(base + number * bytes_of_border(l.c.graph));
  return take_border(l.c.graph, layout);
}

bool begins_sequence(const Layer& l) { return l.c.tile.first_token == 0; }
bool ends_sequence(const Layer& l) { return l.c.tile.first_token + rows_of(l.c) == l.c.graph.batch.tokens; }
u32 tile_in_sequence(const Layer& l) { return l.c.tile.first_token / l.c.graph.batch.tile_tokens; }

// `place`: of the border before a tile of a sequence.
template <class Place>
TileBorders borders(const Layer& l, std::byte* base, Place place) {
  if (base == nullptr) return {};
  const u32 tile = tile_in_sequence(l);
  return {.before = begins_sequence(l) ? Border{} : border_at(l, base, place(tile)),
          .after = ends_sequence(l) ? Border{} : border_at(l, base, place(tile + 1))};
}

void copy_rows(const Layer& l, ConstValues x, Values y, bool add = false) {
  const u32 columns = delta_shape(l.c.graph).columns();
  l.c.kernels.copy_columns({.rows = rows_before(l.c.graph),
                            .columns = columns,
                            .x = x,
                            .x_stride = columns,
                            .y = y,
                            .y_stride = columns,
                            .add = add});
}

// RETURNS: an array that begins `elements` before.
Values from_before(Values x, u64 elements) {
  return {x.data - values_bytes(elements, x.precision), x.precision};
}
// Of the projections or their gradient: the rows before the tile, and those that the next tile reads.
Values rows_before_tile(const Layer& l, Values x) {
  return from_before(x, u64{rows_before(l.c.graph)} * delta_shape(l.c.graph).columns());
}
Values last_rows(const Layer& l, Values x) {
  return x.at(u64{rows_of(l.c) - rows_before(l.c.graph)} * delta_shape(l.c.graph).columns());
}

}  // namespace

PastBytes past_bytes(const ModelGraph& g, u32) {
  const u64 border = bytes_of_border(g);
  return {.values = (g.batch.tiles_of_sequence() - 1) * border, .gradients = 2 * border};
}

TileBorders TileBorders::of_values(const Layer& l, std::byte* past) {
  return borders(l, past, [](u32 tile) { return tile - 1; });
}
TileBorders TileBorders::of_gradients(const Layer& l, std::byte* past_grad) {
  return borders(l, past_grad, [](u32 tile) { return tile % 2; });
}

DeltaShape tile_shape(const Layer& l) {
  DeltaShape shape = delta_shape(l.c.graph);
  if (!l.c.graph.batch.tiled()) return shape;
  shape.sequences = 1, shape.tokens = rows_of(l.c);
  shape.first_token = l.c.tile.first_token, shape.goes_on = !ends_sequence(l);
  return shape;
}

ConvolvedRows::ConvolvedRows(const Layer& l)
    : shape(tile_shape(l)), before(shape.first_token == 0 ? 0 : rows_before(l.c.graph)) {
  shape.tokens += before, shape.first_token -= before;
}
Values ConvolvedRows::projected(Values of_tile) const {
  return from_before(of_tile, u64{before} * shape.columns());
}
Values ConvolvedRows::convolved(Values of_tile) const {
  return from_before(of_tile, u64{before} * shape.channels());
}

void leave_rows(const Layer& l, const DeltaInside& in, const TileBorders& borders) {
  if (borders.after.state != nullptr) copy_rows(l, last_rows(l, in.projected), borders.after.rows);
}
void pass_rows(const Layer& l, const DeltaInside& in, const TileBorders& borders) {
  if (borders.before.state != nullptr) copy_rows(l, borders.before.rows, rows_before_tile(l, in.projected));
  leave_rows(l, in, borders);
}

// Whole floats: half of one more is in the space before the rows.
void clear_rows_before(const Layer& l, const BackwardFrame& w) {
  if (l.c.tile.first_token == 0) return;
  const auto clear = [&](Values x, u32 columns) {
    const u64 floats =
        div_up(values_bytes(u64{rows_before(l.c.graph)} * columns, x.precision), sizeof(float));
    l.c.kernels.zero(reinterpret_cast<float*>(x.data) - floats, floats);
  };
  clear(w.wide, delta_shape(l.c.graph).columns());
  clear(w.dqkv, delta_shape(l.c.graph).channels());
}

void pass_row_gradients(const LayerGradients& s, const TileBorders& borders, Values dprojected) {
  const Layer& l = s.layer;
  if (borders.after.state != nullptr) copy_rows(l, borders.after.rows, last_rows(l, dprojected), true);
  if (borders.before.state != nullptr) copy_rows(l, rows_before_tile(l, dprojected), borders.before.rows);
}

}  // namespace tidepool::gated_delta
