// Frames of latent attention. I is the MLP's width of inner values; Q the width of all heads of q, KV the
// width of kv_b's output, O the width of all heads of v, A = 2 Q + O, L the width of the latent of q, r the
// latent of k and v, U its rotated columns.
#pragma once

#include "kernels/latent/latent.h"
#include "model/attention.h"
#include "model/layer_frames.h"

namespace tidepool::latent {

LatentShape shape_of(const ModelGraph&);

// Backward recomputes norms from it, and needs no q and no kv.
struct AttentionInside {
  AttentionInside(const ModelGraph&, u32 layer, WorkspaceCutter&);
  Values q_low;      // [R, L], before its norm
  Values low;        // [R, r + U]: the latent before its norm, then k's columns before the rotation
  Values qkv;        // [R, A], rotated
  Values attention;  // [R, O]
  float* lse;        // [B, NH, T]
};

// Values on the way from a norm's output to qkv.
struct LatentScratch {
  LatentScratch(const ModelGraph&, u32 layer, WorkspaceCutter&);
  Values q;       // [R, max(Q, I)]: also the MLP's inner values
  Values kv;      // [R, KV]
  Values latent;  // [R, r], packed
  Values normed;  // [R, max(L, r)]: either latent after its norm
};

struct ForwardFrame {
  ForwardFrame(const ModelGraph&, u32 layer, WorkspaceCutter&);
  Values norm;  // [R, H]
  LatentScratch latents;
};

struct BackwardFrame {
  BackwardFrame(const ModelGraph&, u32 layer, WorkspaceCutter&);
  Values norm;            // [R, H]: output of the MLP's norm, then of the first norm
  Values narrow;          // [R, max(H, O)]: gradients
  LatentScratch latents;  // q: the MLP's inner values and their gradient, then dq; kv: dkv
  Values dqkv;            // [R, A]
  Values dlatent;         // [R, max(L, r)]: gradient of either latent
  Values dlow;            // [R, r + U]
  NormScratch moments;    // for all norms; its rstd for those of the residual stream
  float* latent_rstd;     // [R], of the norm of either latent
};

}  // namespace tidepool::latent
