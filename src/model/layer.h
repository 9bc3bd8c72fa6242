// A layer: norm, mixer, norm, MLP, each of mixer and MLP added to the residual stream. Both are chosen for
// each layer, as ModelConfig::mixer_kind() and ModelConfig::mlp_kind() say; one of the two may be none. In a
// layer with experts this is its first block, the attention block; groups of experts are the next.
#pragma once

#include "model/blocks.h"

namespace tidepool {

// Kind of a layer's first block.
inline BlockKind layer_kind(const ModelConfig& c, u32 layer) {
  return c.mlp_kind(layer) == MlpKind::experts ? BlockKind::attention : BlockKind::layer;
}

// Fills in Block::kept and both workspaces.
void measure_layer(Block&, const ModelGraph&);
void layer_forward(const BlockContext&, const BlockForward&);
void layer_backward(const BlockContext&, const BlockBackward&);

}  // namespace tidepool
