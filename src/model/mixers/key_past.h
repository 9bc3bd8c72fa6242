// The past of attention's tiles: k and v of a sequence's tokens, which later tiles read, and their gradients.
#pragma once

#include "kernels/attention/attention.h"
#include "model/layer_parts.h"

namespace tidepool {

// k and v of a token, after norm and rotation, are columns [begin, begin + count) of a row of q, k and v.
struct KeyColumns {
  u32 begin = 0, count = 0, stride = 0;
};

// RETURNS: room for k and v of a sequence, and their gradients in fp32.
PastBytes past_of_keys(const ModelGraph&, u32 columns);
// RETURNS: the shape of the tile's attention; of all of the micro-batch's, if it is not cut.
AttentionShape tile_shape(const Layer&);
// RETURNS: the tile's keys. `past`: as in MixerForward.
AttentionTile tile_of(const Layer&, std::byte* past);
// Writes the tile's rows of the past. `past`: or none.
void copy_to_past(const Layer&, const KeyColumns&, ConstValues qkv, std::byte* past);
// RETURNS: gradients of k and v from the sequence's first token on; null without a past.
float* past_gradients(const LayerGradients&);
// Takes gradients of the tile's k and v, to which all later tiles have added their share; a no-op without a
// past.
void take_past_gradients(const LayerGradients&, const KeyColumns&, Values dqkv);

}  // namespace tidepool
