// A layer: norm, mixer, norm, MLP, each of mixer and MLP added to the residual stream. Both are chosen for
// each layer, as ModelConfig::mixer_kind() and ModelConfig::mlp_kind() say; one of the two may be none. In a
// layer with experts this is its first block, the attention block; groups of experts are the next. If these
// are a branch beside a dense MLP, the end of the layer is a block too, a layer's part without a mixer.
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
void layer_recall(const BlockContext&, const BlockBackward&);
// The end of a layer whose experts are a branch (MlpKind::branches).
void layer_end_forward(const BlockContext&, BlockForward);
void layer_end_backward(const BlockContext&, BlockBackward);

}  // namespace tidepool
