// Layouts of the `kept` and workspace frames of a Llama-like layer, used as block_layouts.h says.
// Q is the width of all query heads, K the width of all key heads, A = Q + 2 K, I the width inside the MLP.
#pragma once

#include "model/block_layouts.h"
#include "model/experts/router_call.h"

namespace tidepool::llama {

// Branch is the output of attention or of the MLP, before the branch norm.
struct Branch {
  Values value;           // [R, H]
  float* rstd = nullptr;  // [R], rstd of the branch norm; null: not stored
};

// Saved activations of a layer: values that are expensive to recompute. Backward recomputes norms, rotations
// and the gated unit from them. H + Q + A + 2 I values per row, and 2 H more if branches are normalised.
struct LayerInside {
  LayerInside(const ModelGraph&, std::byte* base, BlockKind = BlockKind::layer);
  Values qkv;        // [R, A]; q and k are rotated, but not if they have norms: then before norm and rotation
  Values attention;  // [R, Q]
  float* lse;        // [B, NH, T]
  Values middle;     // [R, H], the residual stream between attention and MLP
  Values gate_up;    // [R, 2I]; null in an attention block
  // Null in styles that do not normalise branches.
  Branch attention_branch, mlp_branch;
  Bytes bytes;
};

// If the inside is not kept, `middle` is in the layer's output, which the last product overwrites, and
// attention's output replaces the norm's in `narrow`.
struct ForwardWorkspace {
  ForwardWorkspace(const ModelGraph&, std::byte* base, BlockKind = BlockKind::layer);
  Values wide;    // [R, max(A, 2I)]: qkv, then gate and up
  Values narrow;  // [R, max(H, Q)]: norm, attention, norm, the MLP's branch
  Values inner;   // [R, I]: the gated unit's output; null in an attention block
  AdapterScratch adapters;
  RouterScratch router;  // attention blocks
  Bytes bytes;
};

struct BackwardWorkspace {
  BackwardWorkspace(const ModelGraph&, std::byte* base, Inside, BlockKind = BlockKind::layer);
  // [R, max(I, A)]: the gradient of the gated unit's output, then that output, then the gradient of qkv
  Values wide;
  Values norm;  // [R, H]: output of the MLP's norm, gradient of attention's branch, output of the first norm
  Values narrow;        // [R, max(H, Q)]: gradients
  Values turned;        // [R, A]: qkv after norm and rotation, if q and k have norms; otherwise null
  NormScratch moments;  // for either norm; its partials serve the norms of heads and branches too
  AdapterScratch adapters;
  RouterScratch router;  // attention blocks
  Values dgate_up;       // [R, 2I]; if the inside is recomputed, in place of gate_up. In an attention block:
                         // attention's scratch
  std::byte* inside;     // LayerInside, if recomputed
  Bytes bytes;
};

// Frames of the attention block of a layer with experts: the same without the MLP's parts.
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

}  // namespace tidepool::llama
