// Frames of softmax attention. Q is the width of all query heads, K the width of all key heads, A = Q + 2 K;
// I and V are the MLP's widths of inner values and of values.
#pragma once

#include "model/attention.h"
#include "model/layer_frames.h"

namespace tidepool::softmax {

struct AttentionInside {
  AttentionInside(const ModelGraph&, u32 layer, WorkspaceCutter&);
  // [R, P]: A columns; gates after q's heads, if q has some, make them A + Q, and A - K if v is k. q and k
  // are rotated, but not if they have norms or gates: then before norm and rotation (with norms after the
  // rotation: between the two).
  Values qkv;
  Values attention;  // [R, Q], before the gates
  float* lse;        // [B, NH, T]
};

// If the inside is not kept, attention's output replaces the norm's in `narrow`.
struct ForwardFrame {
  ForwardFrame(const ModelGraph&, u32 layer, WorkspaceCutter&);
  Values wide;    // [R, max(P, V or I)]: qkv, then the MLP's values, or its inner values if they are
                  // all it needs
  Values narrow;  // [R, max(H, Q)]: norm, attention, norm, the MLP's branch
  Values inner;   // [R, I]: the MLP's inner values, if they are not in `wide`
  Values rotary;  // [R, A]: qkv after norm and rotation, if P is not A; otherwise null
};

struct BackwardFrame {
  BackwardFrame(const ModelGraph&, u32 layer, WorkspaceCutter&);
  Values wide;  // [R, max(I, A)]: gradient of the MLP's inner values, those values, gradient of qkv
  Values norm;  // [R, H]: output of the MLP's norm, gradient of attention's branch, output of the first norm
  Values narrow;        // [R, max(H, Q, spare)]: gradients
  Values dropped;       // [R, H], as in BackwardBuffers
  Values rotary;        // [R, A]: qkv after norm and rotation, if q and k have norms or gates; otherwise null
  Values dproduct;      // [R, P]: gradient of qkv, if P is not A; otherwise null
  NormScratch moments;  // its partials serve the norms of heads and branches too
};

}  // namespace tidepool::softmax
