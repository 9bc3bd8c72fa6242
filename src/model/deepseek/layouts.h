// Layouts of the `kept` and workspace frames of DeepSeek-V3's layers, used as block_layouts.h says. A block
// is a dense layer, or the attention block of a layer with experts; the latter's MLP is that of the shared
// experts. I is the width inside this MLP; Q the width of all heads of q, KV the width of kv_b's output, O
// the width of all heads of v, A = 2 Q + O, L the width of the latent of q, r the latent of k and v, U its
// turned columns.
#pragma once

#include "kernels/latent/latent.h"
#include "model/block_layouts.h"
#include "model/experts/router_call.h"

namespace tidepool::deepseek {

LatentShape latent_shape(const ModelGraph&);

// Saved activations. Backward recomputes norms and the gated unit from them, and needs no q and no kv.
struct LayerInside {
  LayerInside(const ModelGraph&, std::byte* base, BlockKind = BlockKind::layer);
  Values q_low;      // [R, L], before its norm
  Values low;        // [R, r + U]: the latent before its norm, then k's turned columns before the rotation
  Values qkv;        // [R, A], rotated
  Values attention;  // [R, O]
  float* lse;        // [B, NH, T]
  Values middle;     // [R, H], the residual stream after attention
  Values gate_up;    // [R, 2I]
  Bytes bytes;
};

// Values on the way from a norm's output to qkv.
struct LatentScratch {
  Values q;       // [R, max(Q, I)]: also the gated unit's output
  Values kv;      // [R, KV]
  Values latent;  // [R, r], packed
  Values normed;  // [R, max(L, r)]: either latent after its norm
};

struct ForwardWorkspace {
  ForwardWorkspace(const ModelGraph&, std::byte* base, BlockKind = BlockKind::layer);
  Values norm;  // [R, H]
  LatentScratch latents;
  AdapterScratch adapters;
  RouterScratch router;         // attention blocks
  float* correction = nullptr;  // [E], attention blocks
  std::byte* inside;            // LayerInside, used if it is not kept
  Bytes bytes;
};

struct BackwardWorkspace {
  BackwardWorkspace(const ModelGraph&, std::byte* base, Inside, BlockKind = BlockKind::layer);
  Values norm;            // [R, H]: output of the MLP's norm, then of the first norm
  Values narrow;          // [R, max(H, O)]: gradients
  LatentScratch latents;  // q: the MLP's inner values and their gradient, then dq; kv: dkv
  Values dqkv;            // [R, A]
  Values dlatent;         // [R, max(L, r)]: gradient of either latent
  Values dlow;            // [R, r + U]
  NormScratch moments;    // for all norms; its rstd for those of the residual stream
  float* latent_rstd;     // [R], of the norm of either latent
  AdapterScratch adapters;
  RouterScratch router;          // attention blocks
  Values dgate_up;               // [R, 2I]
  std::span<std::byte> scratch;  // attention's
  std::byte* inside;             // LayerInside, if recomputed
  Bytes bytes;
};

// Frames of the attention block of a layer with experts.
struct AttentionInside : LayerInside {
  AttentionInside(const ModelGraph& g, std::byte* base) : LayerInside(g, base, BlockKind::attention) {}
};
struct AttentionForwardWorkspace : ForwardWorkspace {
  AttentionForwardWorkspace(const ModelGraph& g, std::byte* base)
      : ForwardWorkspace(g, base, BlockKind::attention) {}
};
struct AttentionBackwardWorkspace : BackwardWorkspace {
  AttentionBackwardWorkspace(const ModelGraph& g, std::byte* base, Inside inside)
      : BackwardWorkspace(g, base, inside, BlockKind::attention) {}
};

}  // namespace tidepool::deepseek
