// Frames of the gated delta rule. N is the width of the projections, C of the convolution's channels, V of
// all value heads; I is the MLP's width of inner values.
#pragma once

#include "kernels/delta_rule/delta_rule.h"
#include "model/layer_frames.h"

namespace tidepool::gated_delta {

// RETURNS: the shape of a model's layers, without rows.
DeltaShape delta_shape(const ModelConfig&);
DeltaShape delta_shape(const ModelGraph&);

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
  NormScratch moments;  // its partials serve this mixer's sums too
  float* states;
};

}  // namespace tidepool::gated_delta
