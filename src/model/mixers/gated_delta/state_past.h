// The past of recurrent layers: at each border between two tiles of a sequence the state of every head, and
// the projections of the last tokens before it, which the convolution reads. Backward has their gradients at
// the two borders of a tile.
#pragma once

#include "model/mixers/gated_delta/frames.h"

namespace tidepool::gated_delta {

PastBytes past_bytes(const ModelGraph&, u32 layer);

// What a tile takes from its border, or leaves there.
struct Border {
  float* state = nullptr;  // [NV, DK, DV]; null: the sequence begins or ends there
  Values rows;             // [taps - 1, N], as `state`
};

// The borders of a tile. A micro-batch that is not cut has none.
struct TileBorders {
  Border before, after;

  // `past`: as in MixerForward.
  static TileBorders of_values(const Layer&, std::byte* past);
  // `past_grad`: as in LayerGradients.
  static TileBorders of_gradients(const Layer&, std::byte* past_grad);
};

// RETURNS: the shape of the tile's rows; of all of the micro-batch's, if it is not cut.
DeltaShape tile_shape(const Layer&);

// Arguments of the convolution, whose arrays begin with the rows of the tile before that it reads.
struct ConvolvedRows {
  explicit ConvolvedRows(const Layer&);
  DeltaShape shape;
  u32 before;  // rows before the tile's first

  const i32* starts(const i32* of_tile) const { return of_tile == nullptr ? nullptr : of_tile - before; }
  // `of_tile`: [R, N], or [R, C].
  Values projected(Values of_tile) const;
  Values convolved(Values of_tile) const;
};

// Leaves the projections of the tile's last rows; pass_rows() also brings those of the rows before it.
void leave_rows(const Layer&, const DeltaInside&, const TileBorders&);
void pass_rows(const Layer&, const DeltaInside&, const TileBorders&);
// Clears the gradients of the rows before the tile.
void clear_rows_before(const Layer&, const BackwardFrame&);
// Adds the gradients of the tile's last rows by the tile behind, and leaves those of the rows before it.
void pass_row_gradients(const LayerGradients&, const TileBorders&, Values dprojected);

}  // namespace tidepool::gated_delta
