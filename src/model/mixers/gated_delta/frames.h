// Frames of the gated delta rule and of Mamba-2, whose steps are the same. N is the width of the projections,
// C of the convolution's channels, V of all value heads; I is the MLP's width of inner values. Before arrays
// of N and of C columns lie the rows_before() a tile.
#pragma once

#include "kernels/delta_rule/delta_rule.h"
#include "model/layer_parts.h"

namespace tidepool::gated_delta {

// RETURNS: the shape of a model's layers, without rows. A model has one of the two rules.
DeltaShape delta_shape(const ModelConfig&);
// RETURNS: the same with the most rows of a call: of a tile, or of the micro-batch.
DeltaShape delta_shape(const ModelGraph&);
// RETURNS: rows of the tile before that the convolution reads; 0 if micro-batches are not cut.
u32 rows_before(const ModelGraph&);

// Backward computes the convolution, the states and the norm again.
struct DeltaInside {
  DeltaInside(const ModelGraph&, WorkspaceCutter&);
  Values projected;  // [R, N]
  Values out;        // [R, V], before its norm
};

struct ForwardFrame {
  ForwardFrame(const ModelGraph&, u32 layer, WorkspaceCutter&);
  Values norm;  // [R, H]
  Values wide;  // [R, max(C, I)]: q, k and v, then the normed output; the MLP's inner values
};

struct BackwardFrame {
  BackwardFrame(const ModelGraph&, u32 layer, WorkspaceCutter&);
  Values norm;          // [R, H]: output of the MLP's norm, then of the first norm
  Values narrow;        // [R, max(H, V, spare)]: gradients
  Values wide;          // [R, max(N, I)]: the MLP's inner values and their gradient, then of the projections
  Values qkv;           // [R, C]: the normed output, then q, k and v
  Values dqkv;          // [R, C]
  Values dropped;       // as in BackwardBuffers
  NormScratch moments;  // its partials serve this mixer's sums too
  float* states;
};

// Functions that the rows of both mixers share. There is no attention, and nothing to restore.
std::optional<AttentionShape> no_attention(const ModelGraph&, u32 layer);
u64 inside_bytes(const ModelGraph&, u32 layer);
ForwardBuffers take_forward(const ModelGraph&, u32 layer, MlpWidths, WorkspaceCutter&);
BackwardBuffers take_backward(const ModelGraph&, u32 layer, MlpWidths, WorkspaceCutter&);
void restore(const LayerGradients&);
DeltaInside inside_of(const Layer&, std::byte* base);
// RETURNS: forward's array for q, k and v, and then for the normed output.
Values wide_of(const Layer&, const MixerForward&);

}  // namespace tidepool::gated_delta
