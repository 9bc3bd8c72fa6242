// Forward and backward of embedding and head, and helpers that read a BlockContext. Layers are in layer.h.
#pragma once

#include "model/adapters.h"
#include "model/block_layouts.h"
#include "model/blocks.h"
#include "model/window_params.h"

namespace tidepool {

void embedding_forward(const BlockContext&, const BlockForward&);
void embedding_backward(const BlockContext&, const BlockBackward&);
// RETURNS: a factor as it multiplies values that are rounded to the parameters' precision.
float rounded_to_params(const ModelGraph&, float);
void head_forward(const BlockContext&, const BlockForward&);
void head_backward(const BlockContext&, const BlockBackward&);

inline const Block& block_of(const BlockContext& c) { return c.graph.blocks[c.block]; }
// Bytes of the workspace that block code itself uses.
inline Bytes forward_workspace_of(const BlockContext& c) {
  return block_of(c).forward_workspace - block_of(c).unpacked;
}
inline const Window& window_of(const BlockContext& c, u32 i) {
  return c.graph.windows[block_of(c).windows[i]];
}
inline WindowParams params_of(const BlockContext& c, std::span<const std::byte* const> windows, u32 i) {
  return {window_of(c, i), c.graph.precision, windows[i]};
}
inline WindowGradients gradients_of(const BlockContext& c, const BlockBackward& b, u32 i) {
  return {window_of(c, i), b.grad_accum.empty() ? nullptr : b.grad_accum[i]};
}
inline u32 rows_of(const BlockContext& c) {
  return c.tile.rows != 0 ? c.tile.rows : static_cast<u32>(c.graph.batch.rows());
}

// Random bits of a block, numbered within the block. No block has both an embedding and attention.
enum class DropoutSite : u8 { embedding = 0, attention = 0, noise = 1, after_attention = 1, after_mlp = 2 };

// Elements are numbered from each tile's first, so the tile is a part of the key. No model has as many
// tensors that drop out as there are numbers below.
inline constexpr u32 tile_shift = 16;
inline Dropout dropout_of_tensor(const BlockContext& c, u32 tensor, double p) {
  return {.p = c.training ? static_cast<float>(p) : 0.0f,
          .seed = c.seed,
          .step = c.step,
          .micro_batch = c.micro_batch,
          .tensor = tensor | c.tile.number << tile_shift};
}
// Number of the embedding or layer, whatever the number of blocks that layers are made of.
inline u32 dropout_place(const BlockContext& c) {
  return block_of(c).kind == BlockKind::embedding ? 0 : block_of(c).layer + 1;
}
inline Dropout dropout_of(const BlockContext& c, DropoutSite site, double p) {
  return dropout_of_tensor(c, 4 * dropout_place(c) + static_cast<u32>(site), p);
}
// Dropout on the input of a score head. It stands behind the layers.
inline Dropout dropout_of_head(const BlockContext& c) {
  return dropout_of_tensor(c, 4 * (c.graph.config.layers + 1), c.graph.config.score.dropout);
}
// Dropout on the input of a module's adapter. The high bit keeps its numbers apart from those of DropoutSite.
// Modules of a layer's end are the later half of a layer's.
inline Dropout dropout_of_adapter(const BlockContext& c, u32 module, double p) {
  constexpr u32 adapters = 0x8000'0000, modules_max = 16;  // without the router, which has no dropout
  if (block_of(c).kind == BlockKind::layer_end) module += modules_max / 2;
  return dropout_of_tensor(c, adapters | (modules_max * dropout_place(c) + module), p);
}

}  // namespace tidepool
